# Four machines of Debian, for days on which something goes wrong.

region               = "europe-west1"
image                = "projects/debian-cloud/global/images/family/debian-12"
enable_pmm           = false
replsetsvr_type      = "n2-standard-2"
mongodb_distribution = "psmdb"
mongo_version        = "8.0.34"

replsets = {
  rs = {}
}
