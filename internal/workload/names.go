package workload

// Word lists. Their order and content are part of the workload's definition:
// changing them changes every document, the golden hashes and formatVersion.

// airlines: name, IATA code, and the three-digit code that its ticket
// numbers begin with.
var airlines = [...]struct{ name, code, ticket string }{
	{"Aegean Airlines", "A3", "390-"},
	{"Aer Lingus", "EI", "053-"},
	{"Aeromexico", "AM", "139-"},
	{"Air Canada", "AC", "014-"},
	{"Air France", "AF", "057-"},
	{"Air New Zealand", "NZ", "086-"},
	{"Alaska Airlines", "AS", "027-"},
	{"All Nippon Airways", "NH", "205-"},
	{"American Airlines", "AA", "001-"},
	{"Austrian Airlines", "OS", "257-"},
	{"Avianca", "AV", "134-"},
	{"British Airways", "BA", "125-"},
	{"Cathay Pacific", "CX", "160-"},
	{"Copa Airlines", "CM", "230-"},
	{"Delta Air Lines", "DL", "006-"},
	{"Emirates", "EK", "176-"},
	{"Ethiopian Airlines", "ET", "071-"},
	{"Etihad Airways", "EY", "607-"},
	{"Finnair", "AY", "105-"},
	{"Iberia", "IB", "075-"},
	{"Japan Airlines", "JL", "131-"},
	{"KLM", "KL", "074-"},
	{"Korean Air", "KE", "180-"},
	{"LATAM Airlines", "LA", "045-"},
	{"LOT Polish Airlines", "LO", "080-"},
	{"Lufthansa", "LH", "220-"},
	{"Qantas", "QF", "081-"},
	{"Qatar Airways", "QR", "157-"},
	{"SAS", "SK", "117-"},
	{"Singapore Airlines", "SQ", "618-"},
	{"Swiss", "LX", "724-"},
	{"TAP Air Portugal", "TP", "047-"},
	{"Turkish Airlines", "TK", "235-"},
	{"United Airlines", "UA", "016-"},
}

// airports are IATA codes.
var airports = [...]string{
	"AMS", "ARN", "ATH", "ATL", "AUH", "BCN", "BER", "BKK", "BOG", "BOM",
	"BOS", "BRU", "CAI", "CDG", "CPH", "CPT", "DEL", "DEN", "DFW", "DOH",
	"DUB", "DXB", "EZE", "FCO", "FRA", "GRU", "HEL", "HKG", "HND", "IAD",
	"IAH", "ICN", "IST", "JFK", "JNB", "KUL", "LAX", "LHR", "LIM", "LIS",
	"MAD", "MEL", "MEX", "MIA", "MUC", "MXP", "NBO", "NRT", "ORD", "OSL",
	"PRG", "PTY", "SCL", "SEA", "SFO", "SIN", "SYD", "VIE", "WAW", "YVR",
	"YYZ", "ZRH",
}

// planes: type, seats, and how many of them are in a row.
var planes = [...]struct {
	name          string
	seats, perRow int64
}{
	{"ATR 72-600", 72, 4},
	{"Airbus A220-300", 130, 5},
	{"Airbus A319", 138, 6},
	{"Airbus A320neo", 180, 6},
	{"Airbus A321neo", 222, 6},
	{"Airbus A330-300", 296, 8},
	{"Airbus A350-900", 324, 9},
	{"Airbus A380-800", 520, 10},
	{"Boeing 737 MAX 8", 174, 6},
	{"Boeing 737-800", 186, 6},
	{"Boeing 767-300ER", 217, 7},
	{"Boeing 777-300ER", 390, 10},
	{"Boeing 787-9", 288, 9},
	{"Embraer E175", 76, 4},
	{"Embraer E195-E2", 132, 4},
}

// maxSeats is at least the seats of every plane.
const maxSeats = 520

// seatLetters name the seats of a row; like airlines, without I.
const seatLetters = "ABCDEFGHJK"

var amenities = [...]string{
	"wifi", "power outlets", "usb charging", "seat screens", "hot meals",
	"lie-flat seats", "extra legroom", "live tv", "mood lighting", "onboard bar",
}

// amenitySteps have no common divisor with the number of amenities.
var amenitySteps = [...]int64{1, 3, 7, 9}

var statuses = []string{
	"arrived", "boarding", "cancelled", "delayed", "departed", "diverted",
	"on time", "scheduled",
}

var mailDomains = []string{"example.com", "example.net", "example.org"}

// Names are ASCII letters only; e-mail addresses are made of them. There are
// 64 of each, so that six random bits choose one.

var firstNames = [64]string{
	"Adam", "Aisha", "Alice", "Amara", "Anders", "Andrea", "Anna", "Arjun",
	"Astrid", "Beatriz", "Boris", "Camila", "Carlos", "Chloe", "Daniel", "Diana",
	"Elena", "Emil", "Emma", "Erik", "Fatima", "Felix", "Fiona", "Gabriel",
	"Giulia", "Grace", "Hana", "Hassan", "Helena", "Hugo", "Ines", "Ivan",
	"Jakub", "Jana", "John", "Julia", "Kenji", "Kwame", "Lars", "Leila",
	"Linh", "Lucas", "Magdalena", "Maria", "Mateo", "Mei", "Mohamed", "Nadia",
	"Natalia", "Noah", "Olga", "Omar", "Oscar", "Paula", "Pedro", "Priya",
	"Rafael", "Ravi", "Sakura", "Samuel", "Sofia", "Thomas", "Valentina", "Yusuf",
}

var lastNames = [64]string{
	"Abebe", "Ahmed", "Almeida", "Andersson", "Bauer", "Becker", "Brown", "Castro",
	"Chen", "Cohen", "Costa", "Davies", "Diaz", "Dubois", "Eriksen", "Fernandez",
	"Fischer", "Garcia", "Gomez", "Green", "Haddad", "Hansen", "Horvat", "Hughes",
	"Ito", "Ivanova", "Jansen", "Jensen", "Johnson", "Jones", "Kaya", "Khan",
	"Kim", "Kowalski", "Kumar", "Larsen", "Lee", "Lopez", "Martin", "Mensah",
	"Meyer", "Moreau", "Mueller", "Murphy", "Nakamura", "Nguyen", "Novak", "Okafor",
	"Olsen", "Patel", "Pereira", "Popescu", "Ricci", "Rossi", "Santos", "Schmidt",
	"Silva", "Smith", "Suzuki", "Tanaka", "Taylor", "Virtanen", "Weber", "Wilson",
}
