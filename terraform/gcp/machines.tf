# Who is there: every machine by its host name. internal/environment names the
# same machines; a test holds the two together.

locals {
  # Deployments are laid out alike: the first member of each is in the first
  # zone, and so on, over three zones at most.
  members = flatten([
    for name, replset in var.replsets : [
      for i in range(replset.data_nodes_per_replset + replset.arbiters_per_replset) : merge(
        {
          deployment = name
          zone       = element(local.zones, var.zone_mode == "multi" ? i % 3 : 0)
          nic_type   = var.nic_type
        },
        i < replset.data_nodes_per_replset ? {
          name             = "${replace(lower(name), "/[^a-z0-9-]/", "-")}-${i}"
          role             = "data"
          type             = var.replsetsvr_type
          min_cpu_platform = var.min_cpu_platform
          placed           = var.compact_placement
          disk_type        = var.data_disk_type
          disk_gb          = var.replsetsvr_volume_size
          } : {
          name             = "${replace(lower(name), "/[^a-z0-9-]/", "-")}-arb${i - replset.data_nodes_per_replset}"
          role             = "arbiter"
          type             = var.arbiter_type
          min_cpu_platform = null
          placed           = false
          disk_type        = null
          disk_gb          = null
        },
      )
    ]
  ])

  load_hosts = [for name in ["plgm"] : {
    deployment       = ""
    zone             = local.zones[0]
    nic_type         = var.nic_type
    name             = name
    role             = "load host"
    type             = var.plgm_type
    min_cpu_platform = null
    placed           = false
    disk_type        = null
    disk_gb          = null
  } if var.enable_plgm]

  monitoring = [for name in [var.default_pmm_host] : {
    deployment       = ""
    zone             = local.zones[0]
    nic_type         = null
    name             = replace(lower(name), "/[^a-z0-9-]/", "-")
    role             = "monitoring"
    type             = var.pmm_type
    min_cpu_platform = null
    placed           = false
    disk_type        = var.pmm_disk_type
    disk_gb          = var.pmm_volume_size
  } if var.enable_pmm]

  machines = {
    for machine in concat(local.members, local.load_hosts, local.monitoring) :
    "${local.prefix}-${machine.name}" => machine
  }

  # Of the machine's own, beside those of the environment.
  machine_labels = {
    for host, machine in local.machines : host => merge(
      local.labels,
      { role = replace(machine.role, " ", "-") },
      machine.deployment == "" ? {} : { deployment = replace(lower(machine.deployment), "/[^a-z0-9-]/", "-") },
    )
  }

  # Families without persistent disks.
  only_hyperdisk = ["c4", "c4a", "c4d", "h4d", "m4", "n4", "n4a", "n4d", "x4"]
}

# What they are made of.

locals {
  image = (
    var.image == null ? "projects/centos-cloud/global/images/family/centos-stream-9" :
    can(tostring(var.image)) ? tostring(var.image) : var.image[var.region]
  )

  # Lines as the guest environment reads them. A user may have several.
  ssh_keys = distinct(concat(
    [
      for user, path in var.gce_ssh_users :
      "${user}:${trimspace(file(can(regex("^[/~]", path)) ? pathexpand(path) : "${var.base_folder}/${path}"))}"
    ],
    [for key in var.ssh_public_key[*] : "${var.ssh_user}:${trimspace(key)}"],
  ))
}

resource "google_compute_resource_policy" "compact" {
  count = var.compact_placement ? 1 : 0

  name        = "${local.prefix}-compact"
  description = local.description
  region      = var.region

  group_placement_policy {
    collocation = "COLLOCATED"
  }

  lifecycle {
    precondition {
      condition     = var.zone_mode == "single"
      error_message = "compact_placement puts the machines close together, and zone_mode \"multi\" spreads them over zones: remove one of them."
    }
  }
}

resource "google_compute_disk" "data" {
  for_each = { for host, machine in local.machines : host => machine if machine.disk_gb != null }

  name        = "${each.key}-data"
  description = local.description
  zone        = each.value.zone
  type        = each.value.disk_type
  size        = each.value.disk_gb
  labels      = local.machine_labels[each.key]
}

resource "google_compute_instance" "machine" {
  for_each = local.machines

  name             = each.key
  description      = local.description
  zone             = each.value.zone
  machine_type     = each.value.type
  min_cpu_platform = each.value.min_cpu_platform
  tags             = [replace(each.value.role, " ", "-")]
  labels           = local.machine_labels[each.key]

  # A machine that was stopped, by Google or by hand, is started again.
  desired_status            = "RUNNING"
  allow_stopping_for_update = true

  boot_disk {
    initialize_params {
      image  = local.image
      size   = 20
      type   = contains(local.only_hyperdisk, split("-", each.value.type)[0]) ? "hyperdisk-balanced" : "pd-balanced"
      labels = local.machine_labels[each.key]
    }
  }

  # The machine sees it as /dev/disk/by-id/google-data.
  dynamic "attached_disk" {
    for_each = each.value.disk_gb != null ? [google_compute_disk.data[each.key].id] : []

    content {
      source      = attached_disk.value
      device_name = "data"
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.subnet.id
    nic_type   = each.value.nic_type

    access_config {} # an address outside, for packages and SSH
  }

  resource_policies = each.value.placed ? google_compute_resource_policy.compact[*].id : []

  # A machine that is moved while it runs stands still for a while, and nothing
  # in it can tell. Where something is measured it is stopped instead, which
  # nobody can overlook; spot and placed machines cannot be moved anyway.
  scheduling {
    on_host_maintenance         = contains(["data", "load host"], each.value.role) || var.use_spot_instances ? "TERMINATE" : "MIGRATE"
    automatic_restart           = !(each.value.placed || var.use_spot_instances)
    preemptible                 = var.use_spot_instances
    provisioning_model          = var.use_spot_instances ? "SPOT" : "STANDARD"
    instance_termination_action = var.use_spot_instances ? "STOP" : null
  }

  # The keys here are the only way in: neither OS Login nor the project's.
  metadata = {
    ssh-keys               = join("\n", local.ssh_keys)
    block-project-ssh-keys = "TRUE"
    enable-oslogin         = "FALSE"
  }

  lifecycle {
    precondition {
      condition     = length(local.ssh_keys) > 0
      error_message = "Set ssh_public_key or gce_ssh_users: nobody could log in."
    }
  }
}
