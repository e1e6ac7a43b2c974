# A primary, a secondary and an arbiter beside three members with data: what
# the third copy costs. With an arbiter the default write concern is w:1, so
# give both the same one:
#
#   sandbox up    -var-file environments/psa.tfvars
#   sandbox bench --sizes 2k,8k --duration 10s --write-concern 1 --baseline pss
#
# The report calls the comparison unfair, because the number of members with
# data differs: here that is what is compared.

platform = "local"

# The same server everywhere; a replica set may override it.
mongodb_distribution = "community"
mongo_release        = "8.0"
mongo_version        = "8.0.34"

replsets = {
  pss = {
    data_nodes_per_replset = 3
  }
  psa = {
    data_nodes_per_replset = 2
    arbiters_per_replset   = 1
  }
}
