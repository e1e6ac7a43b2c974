# One environment on Google Cloud: a network of its own, a machine for every
# member, and the machines for load and monitoring.
#
# `sandbox up` runs this folder with the user's own variable files, unchanged,
# followed by one file that sets what generated.tf declares. The same by hand:
#
#   terraform init
#   terraform apply -var-file my.tfvars -var environment=my \
#     -var caller_range=203.0.113.7/32 -var "ssh_public_key=$(cat my-key.pub)"
#
# It makes machines and nothing on them: packages are installed through SSH.

terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 8.0"
    }
  }
}

provider "google" {
  project = var.project_id
  region  = var.region
}

locals {
  # In front of every name, so that environments can share a project.
  prefix = coalesce(var.prefix, var.environment)

  # On everything that takes labels. What takes none has the description,
  # which never changes: a network cannot be described anew without making it
  # anew.
  labels = { for label, value in {
    managed-by  = "sandbox"
    environment = var.environment
    owner       = var.owner
    created     = var.created
    ttl         = var.ttl
  } : label => value if value != "" }
  description = "Environment ${var.environment} of sandbox"

  zones = var.zones != null ? var.zones : sort(data.google_compute_zones.region[0].names)
}

# Asked only when the zones are not given.
data "google_compute_zones" "region" {
  count  = var.zones == null ? 1 : 0
  region = var.region
}
