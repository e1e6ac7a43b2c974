# A network of its own: what is not allowed here is closed.

locals {
  callers = [for range in split(",", try(coalesce(var.source_ranges, var.caller_range), "")) : trimspace(range) if trimspace(range) != ""]

  database_port = "27017"
}

resource "google_compute_network" "network" {
  name                    = "${local.prefix}-${var.default_vpc_name}"
  description             = local.description
  auto_create_subnetworks = false

  lifecycle {
    precondition {
      condition     = length(var.clusters) == 0
      error_message = "Sharded clusters are not supported yet: write clusters = {} and use replsets."
    }
  }
}

resource "google_compute_subnetwork" "subnet" {
  name          = "${local.prefix}-${var.subnet_name}"
  description   = local.description
  region        = var.region
  network       = google_compute_network.network.id
  ip_cidr_range = var.subnet_cidr
}

# From outside: SSH, and the pages of the PMM server.

resource "google_compute_firewall" "ssh" {
  name          = "${local.prefix}-ssh"
  description   = local.description
  network       = google_compute_network.network.name
  source_ranges = local.callers

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }

  lifecycle {
    precondition {
      condition     = length(local.callers) > 0
      error_message = "Set source_ranges to the addresses that may connect."
    }
  }
}

resource "google_compute_firewall" "pmm" {
  count = var.enable_pmm ? 1 : 0

  name          = "${local.prefix}-pmm"
  description   = local.description
  network       = google_compute_network.network.name
  source_ranges = local.callers
  target_tags   = ["monitoring"]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.pmm_port)]
  }
}

# Inside: the databases, monitoring, and SSH from the load host.

resource "google_compute_firewall" "inside" {
  name          = "${local.prefix}-inside"
  description   = local.description
  network       = google_compute_network.network.name
  source_ranges = [var.subnet_cidr]

  allow {
    protocol = "tcp"
    ports    = ["22", local.database_port, tostring(var.pmm_port)]
  }

  allow {
    protocol = "icmp"
  }
}
