package gcp

import (
	"strconv"
	"strings"
)

// Price is an amount in USD per hour, which may not be known.
type Price struct {
	USD   float64
	Known bool
}

// Prices is a table of list prices.
type Prices struct {
	// Date is the day they were read, YYYY-MM-DD; Source is where they come
	// from.
	Date, Source string
	regions      map[string]regionPrices
}

// hoursPerMonth is Google's for prices by the month.
const hoursPerMonth = 730

// rates are the prices of a machine family per hour, in USD: of a CPU and of a
// GB of memory.
type rates struct{ cpu, gb float64 }

// regionPrices are those of a region: families per hour, disks per GB and
// month.
type regionPrices struct {
	families map[string]rates
	disks    map[string]float64
}

func region(e2, n2 rates, standard, balanced, ssd float64) regionPrices {
	return regionPrices{
		families: map[string]rates{"e2": e2, "n2": n2},
		disks:    map[string]float64{"pd-standard": standard, "pd-balanced": balanced, "pd-ssd": ssd},
	}
}

// PriceList is the table that this program has: persistent disks and the
// families e2 and n2, in the larger regions. A machine's price is that of its
// CPUs and its memory, so these are enough.
func PriceList() Prices {
	return Prices{Date: "2025-03-06", Source: "https://cloud.google.com/compute/all-pricing", regions: map[string]regionPrices{
		"asia-east1":              region(rates{0.02525538, 0.00338514}, rates{0.036602, 0.004906}, 0.04, 0.1, 0.17),
		"asia-northeast1":         region(rates{0.02802642, 0.00373911}, rates{0.040618, 0.005419}, 0.052, 0.13, 0.221),
		"asia-south1":             region(rates{0.0261993, 0.00351072}, rates{0.03797, 0.005088}, 0.048, 0.12, 0.204),
		"asia-southeast1":         region(rates{0.02690931, 0.00360594}, rates{0.038999, 0.005226}, 0.044, 0.11, 0.187),
		"australia-southeast1":    region(rates{0.03095064, 0.00414759}, rates{0.044856, 0.006011}, 0.054, 0.135, 0.23),
		"europe-north1":           region(rates{0.02401614, 0.00321816}, rates{0.034806, 0.004664}, 0.044, 0.11, 0.187),
		"europe-southwest1":       region(rates{0.025738, 0.00345}, rates{0.03730098, 0.00499966}, 0.0472, 0.12, 0.2006),
		"europe-west1":            region(rates{0.02399337, 0.00321609}, rates{0.034773, 0.004661}, 0.04, 0.1, 0.17),
		"europe-west2":            region(rates{0.0281037, 0.00376602}, rates{0.04073, 0.005458}, 0.048, 0.12, 0.204),
		"europe-west3":            region(rates{0.0281037, 0.00376602}, rates{0.04073, 0.005458}, 0.048, 0.12, 0.204),
		"europe-west4":            region(rates{0.02401338, 0.00321816}, rates{0.034802, 0.004664}, 0.044, 0.11, 0.187),
		"europe-west6":            region(rates{0.03051939, 0.00409032}, rates{0.044221, 0.005927}, 0.052, 0.13, 0.221),
		"europe-west8":            region(rates{0.025302, 0.003391}, rates{0.03666876, 0.00491492}, 0.0464, 0.116, 0.1972),
		"europe-west9":            region(rates{0.025302, 0.003391}, rates{0.03666876, 0.00491492}, 0.0464, 0.116, 0.1972),
		"me-west1":                region(rates{0.02399275, 0.00321588}, rates{0.0347721, 0.0046607}, 0.044, 0.11, 0.187),
		"northamerica-northeast1": region(rates{0.02401338, 0.00321816}, rates{0.034802, 0.004664}, 0.044, 0.11, 0.187),
		"us-central1":             region(rates{0.02181159, 0.00292353}, rates{0.031611, 0.004237}, 0.04, 0.1, 0.17),
		"us-east1":                region(rates{0.02181159, 0.00292353}, rates{0.031611, 0.004237}, 0.04, 0.1, 0.17),
		"us-east4":                region(rates{0.02456745, 0.00329199}, rates{0.035605, 0.004771}, 0.044, 0.11, 0.187),
		"us-east5":                region(rates{0.02181159, 0.00292353}, rates{0.031611, 0.004237}, 0.04, 0.1, 0.17),
		"us-south1":               region(rates{0.02573768, 0.00344977}, rates{0.03730098, 0.00499966}, 0.0472, 0.12, 0.2006),
		"us-west1":                region(rates{0.02181159, 0.00292353}, rates{0.031611, 0.004237}, 0.04, 0.1, 0.17),
		"us-west2":                region(rates{0.0261993, 0.00351141}, rates{0.03797, 0.005089}, 0.048, 0.12, 0.204),
		"us-west4":                region(rates{0.02456745, 0.00329199}, rates{0.035603, 0.004771}, 0.044, 0.11, 0.187),
	}}
}

// Machine is the price of a standard machine of a type in a region.
func (p Prices) Machine(region, machineType string) Price {
	cpus, gb, ok := sizeOf(machineType)
	family, _, _ := strings.Cut(machineType, "-")
	rate, found := p.regions[region].families[family]
	if !ok || !found {
		return Price{}
	}
	return Price{USD: cpus*rate.cpu + gb*rate.gb, Known: true}
}

// sizeOf is what is billed of a machine type of e2 or n2: CPUs, which are
// fractions for types that share them, and GB of memory.
func sizeOf(machineType string) (cpus, gb float64, ok bool) {
	switch machineType {
	case "e2-micro":
		return 0.25, 1, true
	case "e2-small":
		return 0.5, 2, true
	case "e2-medium":
		return 1, 4, true
	}
	parts := strings.Split(machineType, "-")
	if len(parts) != 3 {
		return 0, 0, false
	}
	count, err := strconv.Atoi(parts[2])
	memory, known := map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}[parts[1]]
	return float64(count), float64(count) * memory, err == nil && count > 0 && known
}

// Disk is the price of a disk of so many GB. What a hyperdisk costs depends on
// more than its size: it is not known.
func (p Prices) Disk(region, kind string, gb int) Price {
	month, ok := p.regions[region].disks[kind]
	return Price{USD: month * float64(gb) / hoursPerMonth, Known: ok}
}

// Address is the price of an external address in use, by a standard or a spot
// machine. It is the same everywhere.
func (p Prices) Address(spot bool) Price {
	if spot {
		return Price{USD: 0.0025, Known: true}
	}
	return Price{USD: 0.005, Known: true}
}
