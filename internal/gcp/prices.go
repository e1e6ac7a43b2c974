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
	// Date is the day they were read, YYYY-MM-DD; Source is where.
	Date, Source string
	regions      map[string]regionPrices
}

// hoursPerMonth is Google's for prices by the month.
const hoursPerMonth = 730

// rates are the prices of a machine family per hour.
type rates struct{ cpu, gb float64 }

// regionPrices are USD per hour, disks per GB and month.
type regionPrices struct {
	standard, spot map[string]rates // by family
	disks          map[string]float64
}

// Machine is the price of a machine type.
func (p Prices) Machine(region, machineType string, spot bool) Price {
	in := p.regions[region]
	of := in.standard
	if spot {
		of = in.spot
	}
	cpus, gb, ok := sizeOf(machineType)
	family, _, _ := strings.Cut(machineType, "-")
	rate, found := of[family]
	if !ok || !found {
		return Price{}
	}
	return Price{USD: cpus*rate.cpu + gb*rate.gb, Known: true}
}

// sizeOf is what is billed of a machine type: CPUs and GB of memory.
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
	if err != nil {
		return 0, 0, false
	}
	perCPU := map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}
	if parts[0] != "e2" && parts[0] != "n2" {
		return 0, 0, false
	}
	memory, ok := perCPU[parts[1]]
	return float64(count), float64(count) * memory, ok
}

// Disk is the price of a disk of so many GB. What hyperdisks cost beside the
// space depends on settings of theirs: they are not known.
func (p Prices) Disk(region, kind string, gb int) Price {
	month, ok := p.regions[region].disks[kind]
	return Price{USD: month * float64(gb) / hoursPerMonth, Known: ok}
}

// Address is the price of an external address in use.
func (p Prices) Address(spot bool) Price {
	if spot {
		return Price{USD: 0.0025, Known: true}
	}
	return Price{USD: 0.005, Known: true}
}

// PriceList is the table that this program has.
func PriceList() Prices {
	return Prices{Date: "2025-03-06", Source: "https://cloud.google.com/compute/all-pricing", regions: map[string]regionPrices{}}
}
