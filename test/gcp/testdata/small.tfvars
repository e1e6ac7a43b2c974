# A primary, a secondary and an arbiter over three zones, on spot machines.

region             = "europe-west1"
zone_mode          = "multi"
use_spot_instances = true
image              = { europe-west1 = "projects/debian-cloud/global/images/family/debian-12" }

replsetsvr_type        = "n2-standard-2"
replsetsvr_volume_size = "20"
data_disk_type         = "pd-balanced"
source_ranges          = "192.0.2.0/24, 198.51.100.7/32"
enable_pmm             = false
wiredtiger_cache_gb    = 0.5

replsets = {
  "Odd_Name.v2" = {
    data_nodes_per_replset = 2
    arbiters_per_replset   = 1
    mongo_release          = "psmdb-80"
    mongo_version          = "8.0.34"
  }
}
