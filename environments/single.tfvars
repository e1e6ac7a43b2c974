# One member: the smallest thing that is still a replica set, for writing and
# trying out workloads.
#
#   sandbox up           -var-file environments/single.tfvars
#   sandbox workload run --uri …   (the connection string is in sandbox status)

platform = "local"

replsets = {
  rs = {
    data_nodes_per_replset = 1
    mongodb_distribution   = "community"
    mongo_release          = "8.0"
    mongo_version          = "8.0.34"
  }
}
