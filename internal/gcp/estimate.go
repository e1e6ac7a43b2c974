package gcp

import (
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// bootDiskGB and the type of the boot disks are those of terraform/gcp.
const bootDiskGB = 20

// Cost is a number of equal resources and their price.
type Cost struct {
	Kind  string   // "machine", "disk", "boot disk", "address"
	What  string   // "n2-standard-4", "pd-ssd 80 GB"
	For   string   // what they are for: "data", "load host", …
	Names []string // of the machines
	Each  Price    // per hour, of one
	// UpperBound says that they cost that at most: spot machines are counted
	// at the price of standard ones, since theirs changes from month to month.
	UpperBound bool
}

// Hourly is the price of all of them.
func (c Cost) Hourly() Price {
	return Price{USD: c.Each.USD * float64(len(c.Names)), Known: c.Each.Known}
}

// Estimate is what an environment costs while it exists, traffic, taxes,
// discounts and PMM's container aside.
type Estimate struct {
	Region string
	Spot   bool // the machines are spot machines
	// Date is the day of the price table, YYYY-MM-DD, Source where it is from.
	Date, Source string
	Costs        []Cost
	// Hourly is the sum of the known prices, in USD.
	Hourly float64
	// Unknown is what the table has no price for: "c4-standard-8 in
	// europe-west9".
	Unknown []string
}

// EstimateOf adds up a Spec of the gcp platform. It needs no network.
func EstimateOf(spec *environment.Spec) Estimate {
	cloud := spec.Cloud
	prices := PriceList()
	e := Estimate{Region: cloud.Region, Spot: cloud.Spot, Date: prices.Date, Source: prices.Source}
	add := func(kind, what, role, machine string, price Price) {
		i := slices.IndexFunc(e.Costs, func(c Cost) bool { return c.Kind == kind && c.What == what && c.For == role })
		if i < 0 {
			i = len(e.Costs)
			e.Costs = append(e.Costs, Cost{Kind: kind, What: what, For: role, Each: price, UpperBound: kind == "machine" && cloud.Spot && price.Known})
		}
		e.Costs[i].Names = append(e.Costs[i].Names, machine)
		unknown := what + " in " + cloud.Region
		switch {
		case price.Known:
			e.Hourly += price.USD
		case !slices.Contains(e.Unknown, unknown):
			e.Unknown = append(e.Unknown, unknown)
		}
	}
	for _, m := range spec.Machines {
		add("machine", m.Type, m.Role, m.Name, prices.Machine(cloud.Region, m.Type))
	}
	for _, m := range spec.Machines {
		if m.DiskGB > 0 {
			add("disk", diskText(m.DiskType, m.DiskGB), m.Role, m.Name, prices.Disk(cloud.Region, m.DiskType, m.DiskGB))
		}
	}
	for _, m := range spec.Machines {
		kind := bootDiskType(m.Type)
		add("boot disk", diskText(kind, bootDiskGB), "", m.Name, prices.Disk(cloud.Region, kind, bootDiskGB))
	}
	for _, m := range spec.Machines {
		add("address", "external IPv4 address", "", m.Name, prices.Address(cloud.Spot))
	}
	return e
}

// bootDiskType is the type that terraform/gcp gives the boot disk: some
// families have no persistent disks.
func bootDiskType(machineType string) string {
	family, _, _ := strings.Cut(machineType, "-")
	if slices.Contains([]string{"c4", "c4a", "c4d", "h4d", "m4", "n4", "n4a", "n4d", "x4"}, family) {
		return "hyperdisk-balanced"
	}
	return "pd-balanced"
}
