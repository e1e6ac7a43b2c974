# Two versions on Google Cloud machines. `sandbox plan` shows what would be
# created, and creates nothing.

platform = "gcp"
region   = "europe-west1"

# One zone, machines close together, one CPU platform: what differs should be
# the version.
zone_mode         = "single"
compact_placement = true
min_cpu_platform  = "Intel Ice Lake"

replsetsvr_type        = "n2-standard-4"
replsetsvr_volume_size = 100
data_disk_type         = "pd-ssd"

# The load host should never be the bottleneck.
enable_plgm = true
plgm_type   = "n2-highcpu-8"

# Monitoring agents cost the servers a little; on for all or off for all.
enable_pmm = false

replsets = {
  old = {
    mongodb_distribution = "psmdb"
    mongo_release        = "psmdb-80"
    mongo_version        = "8.0.34"
  }
  new = {
    mongodb_distribution = "psmdb"
    mongo_release        = "psmdb-83"
    mongo_version        = "8.3.13"
  }
}
