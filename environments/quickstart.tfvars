# Three servers side by side on this machine: what `make demo` brings up.
#
#   sandbox up    -var-file environments/quickstart.tfvars
#   sandbox bench --sizes 1k,4k,8k --duration 10s
#   sandbox report
#   sandbox down
#
# A mongod of the exact version is used where one is found; elsewhere the
# embedded engine stands in, and its numbers say nothing about MongoDB.

platform = "local"

replsets = {
  # MongoDB Community 9.0
  mongo9 = {
    data_nodes_per_replset = 3
    mongodb_distribution   = "community"
    mongo_release          = "9.0"
    mongo_version          = "9.0.4"
  }

  # Percona Server for MongoDB 8.0
  psmdb80 = {
    data_nodes_per_replset = 3
    mongodb_distribution   = "psmdb"
    mongo_release          = "psmdb-80"
    mongo_version          = "8.0.34"
  }

  # Percona Server for MongoDB 8.3
  psmdb83 = {
    data_nodes_per_replset = 3
    mongodb_distribution   = "psmdb"
    mongo_release          = "psmdb-83"
    mongo_version          = "8.3.13"
  }
}
