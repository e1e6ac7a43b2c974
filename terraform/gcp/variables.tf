# The variables of an environment file.
#
# Terraform reads this file, and so does sandbox itself on every platform: what
# is accepted, converted and defaulted here is so everywhere. Names, types and
# defaults are those of the public sandbox variables, apart from defaults that
# make poor benchmarks or poor security. An attribute or variable set to null
# takes its default. Validations look at their own variable only.

#########
# Where #
#########

variable "platform" {
  description = "Where the environment runs: gcp (machines of Google Cloud), local (processes on this machine) or existing (deployments that are there already)."
  type        = string
  default     = "gcp"
  nullable    = false

  validation {
    condition     = contains(["gcp", "local", "existing"], var.platform)
    error_message = "The platform is gcp, local or existing."
  }
}

variable "prefix" {
  description = "Put in front of every host name. Unset, it is the environment's name on gcp and nothing on the local platform."
  type        = string
  default     = null

  validation {
    condition     = var.prefix == null || can(regex("^([a-z]([a-z0-9-]*[a-z0-9])?)?$", var.prefix))
    error_message = "A prefix starts with a lower-case letter and has lower-case letters, digits and inner hyphens only."
  }
}

variable "project_id" {
  description = "Google Cloud project. Unset, the one that the Google credentials name."
  type        = string
  default     = null
}

variable "state_bucket" {
  description = "Cloud Storage bucket that Terraform keeps its state in. Unset, it is a file in the environment's folder."
  type        = string
  default     = null

  validation {
    condition     = var.state_bucket == null || can(regex("^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", var.state_bucket))
    error_message = "The bucket is its name alone, without gs://."
  }
}

variable "region" {
  description = "Google Cloud region."
  type        = string
  default     = "northamerica-northeast1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "A region is written like northamerica-northeast1."
  }
}

variable "zone_mode" {
  description = "single puts every machine in one zone of the region; multi spreads the members of each deployment over its zones, every deployment alike."
  type        = string
  default     = "single"
  nullable    = false

  validation {
    condition     = contains(["single", "multi"], var.zone_mode)
    error_message = "zone_mode is single or multi."
  }
}

variable "compact_placement" {
  description = "Place the data-bearing machines close together (needs zone_mode single and a machine family that allows it)."
  type        = bool
  default     = false
  nullable    = false
}

########
# What #
########

variable "replsets" {
  description = "Replica sets by name. The name is also the replica set's own name."
  type = map(object({
    env_tag                = optional(string, "test") # label for monitoring
    data_nodes_per_replset = optional(number, 3)      # members with data
    arbiters_per_replset   = optional(number, 0)
    mongodb_distribution   = optional(string) # community, psmdb or enterprise
    mongo_release          = optional(string) # release line: "8.0" or "psmdb-80"
    mongo_version          = optional(string) # exact version: "8.0.34"
    mongo_repo             = optional(string) # release, testing or experimental
    wiredtiger_cache_gb    = optional(number) # unset: the environment's
    pbm_version            = optional(string) # backup agent
    pbm_repo               = optional(string)
    pmm_client_version     = optional(string)
    pmm_client_repo        = optional(string)
    enable_pmm             = optional(bool)        # unset: the environment's enable_pmm
    enable_pbm             = optional(bool, false) # a backup agent has no place beside a benchmark
    enable_mongot          = optional(bool, false)
    mongot_source          = optional(string)
    mongot_repo            = optional(string)
    mongot_version         = optional(string)
    enable_audit           = optional(bool, false)
    audit_filter           = optional(string)
    use_tls                = optional(bool, false)
    ldap_server            = optional(string) # a key of ldap_servers
  }))
  default  = {}
  nullable = false
}

variable "clusters" {
  description = "Sharded clusters by name."
  type = map(object({
    env_tag              = optional(string, "test") # label for monitoring
    configsvr_count      = optional(number, 3)
    shard_count          = optional(number, 2)
    shardsvr_replicas    = optional(number, 2) # members with data per shard
    arbiters_per_replset = optional(number, 1)
    mongos_count         = optional(number, 2)
    mongodb_distribution = optional(string) # community, psmdb or enterprise
    mongo_release        = optional(string) # release line: "8.0" or "psmdb-80"
    mongo_version        = optional(string) # exact version: "8.0.34"
    mongo_repo           = optional(string) # release, testing or experimental
    pbm_version          = optional(string) # backup agent
    pbm_repo             = optional(string)
    pmm_client_version   = optional(string)
    pmm_client_repo      = optional(string)
    enable_pmm           = optional(bool)        # unset: the environment's enable_pmm
    enable_pbm           = optional(bool, false) # a backup agent has no place beside a benchmark
    enable_mongot        = optional(bool, false)
    mongot_source        = optional(string)
    mongot_repo          = optional(string)
    mongot_version       = optional(string)
    enable_audit         = optional(bool, false)
    audit_filter         = optional(string)
    use_tls              = optional(bool, false)
    ldap_server          = optional(string) # a key of ldap_servers
  }))
  default  = {}
  nullable = false
}

############
# Versions #
############
# Defaults for deployments that do not say their own.

variable "mongodb_distribution" {
  description = "community, psmdb or enterprise. Unset, it follows from the release."
  type        = string
  default     = null

  validation {
    condition     = var.mongodb_distribution == null || can(regex("^(community|psmdb|enterprise)?$", var.mongodb_distribution))
    error_message = "The distribution is community, psmdb or enterprise."
  }
}

variable "mongo_release" {
  description = "Release line: psmdb-80 for Percona Server for MongoDB, 8.0 (in quotes) for the others. Unset, it follows from the version; with nothing set it is psmdb-80."
  type        = string
  default     = null
}

variable "mongo_version" {
  description = "Exact version, such as 8.0.34. Unset, the newest of the release."
  type        = string
  default     = null
}

variable "wiredtiger_cache_gb" {
  description = "Cache of the storage engine on every member with data, in GB. Unset, the server's default: half of the machine's memory less 1 GB."
  type        = number
  default     = null
}

variable "mongo_repo" {
  description = "Package channel of the server: release, testing or experimental."
  type        = string
  default     = null
}

variable "mongot_repo" {
  description = "Package channel of the search process."
  type        = string
  default     = null
}

variable "pbm_version" {
  description = "Version of the backup agent."
  type        = string
  default     = null
}

variable "pbm_repo" {
  description = "Package channel of the backup agent."
  type        = string
  default     = null
}

variable "pmm_client_version" {
  description = "Version of the monitoring client."
  type        = string
  default     = null
}

variable "pmm_client_repo" {
  description = "Package channel of the monitoring client."
  type        = string
  default     = null
}

############
# Machines #
############

variable "replsetsvr_type" {
  description = "Machine type of members with data."
  type        = string
  default     = "n2-standard-4"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.replsetsvr_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "replsetsvr_volume_size" {
  description = "Data disk of each such member, in GB."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = var.replsetsvr_volume_size >= 10 && floor(var.replsetsvr_volume_size) == var.replsetsvr_volume_size
    error_message = "A disk has 10 GB or more, in whole GB."
  }
}

variable "arbiter_type" {
  description = "Machine type of arbiters, which have no data disk."
  type        = string
  default     = "e2-medium"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.arbiter_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "data_disk_type" {
  description = "Type of the data disks."
  type        = string
  default     = "pd-ssd"
  nullable    = false

  validation {
    condition     = can(regex("^(pd|hyperdisk)-[a-z-]+$", var.data_disk_type))
    error_message = "A disk type is written like pd-ssd."
  }
}

variable "min_cpu_platform" {
  description = "Oldest CPU platform that members may get, such as Intel Ice Lake. Unset, whatever is there: members of one type may then differ."
  type        = string
  default     = null
}

variable "nic_type" {
  description = "Network interface of members and load host."
  type        = string
  default     = "GVNIC"
  nullable    = false

  validation {
    condition     = contains(["GVNIC", "VIRTIO_NET"], var.nic_type)
    error_message = "nic_type is GVNIC or VIRTIO_NET."
  }
}

variable "image" {
  description = "Boot image: one for all, or a map from region to image. Unset, the CentOS Stream 9 family."
  type        = any
  default     = null

  validation {
    condition     = var.image == null || can(regex("", var.image)) || can({ for region in keys(var.image) : region => regex("", var.image[region]) })
    error_message = "The image is a name, or a map from region to name."
  }
}

variable "use_spot_instances" {
  description = "Use machines that Google may take away at any time."
  type        = bool
  default     = false
  nullable    = false
}

variable "shardsvr_type" {
  description = "Machine type of shard members."
  type        = string
  default     = "n2-standard-4"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.shardsvr_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "shardsvr_volume_size" {
  description = "Data disk of each shard member, in GB."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = var.shardsvr_volume_size >= 10 && floor(var.shardsvr_volume_size) == var.shardsvr_volume_size
    error_message = "A disk has 10 GB or more, in whole GB."
  }
}

variable "configsvr_type" {
  description = "Machine type of config servers."
  type        = string
  default     = "n2-standard-2"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.configsvr_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "configsvr_volume_size" {
  description = "Data disk of each config server, in GB."
  type        = number
  default     = 20
  nullable    = false

  validation {
    condition     = var.configsvr_volume_size >= 10 && floor(var.configsvr_volume_size) == var.configsvr_volume_size
    error_message = "A disk has 10 GB or more, in whole GB."
  }
}

variable "mongos_type" {
  description = "Machine type of mongos routers."
  type        = string
  default     = "n2-standard-2"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.mongos_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

#############
# Load host #
#############

variable "enable_plgm" {
  description = "Create the machine that the workload runs on."
  type        = bool
  default     = true
  nullable    = false
}

variable "plgm_type" {
  description = "Machine type of the load host."
  type        = string
  default     = "n2-highcpu-8"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.plgm_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "enable_ycsb" {
  description = "Create a YCSB machine."
  type        = bool
  default     = false
  nullable    = false
}

variable "ycsb_type" {
  description = "Machine type of the YCSB machine."
  type        = string
  default     = "e2-medium"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.ycsb_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "default_ycsb_host" {
  description = "Host name of the YCSB machine, without the prefix."
  type        = string
  default     = "ycsb"
  nullable    = false
}

##############
# Monitoring #
##############

variable "enable_pmm" {
  description = "Create a PMM server and register every member with it."
  type        = bool
  default     = true
  nullable    = false
}

variable "default_pmm_host" {
  description = "Host name of the PMM server, without the prefix."
  type        = string
  default     = "pmm-server"
  nullable    = false
}

variable "pmm_type" {
  description = "Machine type of the PMM server."
  type        = string
  default     = "e2-standard-2"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.pmm_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "pmm_disk_type" {
  description = "Type of its disk."
  type        = string
  default     = "pd-ssd"
  nullable    = false
}

variable "pmm_volume_size" {
  description = "Its disk, in GB."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = var.pmm_volume_size >= 10 && floor(var.pmm_volume_size) == var.pmm_volume_size
    error_message = "A disk has 10 GB or more, in whole GB."
  }
}

variable "pmm_port" {
  description = "Port of the PMM server."
  type        = number
  default     = 8443
  nullable    = false

  validation {
    condition     = var.pmm_port >= 1 && var.pmm_port <= 65535
    error_message = "A port is between 1 and 65535."
  }
}

variable "pmm_image" {
  description = "Container image of the PMM server."
  type        = string
  default     = "percona/pmm-server:3"
  nullable    = false
}

variable "port_to_forward" {
  description = "Port on this machine that the tunnel to the PMM server uses."
  type        = string
  default     = "23443"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]{1,5}$", var.port_to_forward))
    error_message = "A port is between 1 and 65535."
  }
}

##########
# Access #
##########

variable "gce_ssh_users" {
  description = "Users that may log in, each with the path of a public key file."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "my_ssh_user" {
  description = "The one of them that sandbox logs in as. Unset, a user of its own with a generated key."
  type        = string
  default     = null
}

variable "ssh_private_key_path" {
  description = "Private key of my_ssh_user. Unset, the SSH agent or the usual files."
  type        = string
  default     = null
}

variable "enable_ssh_gateway" {
  description = "Reach the machines through a jump host."
  type        = bool
  default     = false
  nullable    = false
}

variable "ssh_gateway_name" {
  description = "SSH name of the jump host."
  type        = string
  default     = "gateway"
  nullable    = false
}

###########
# Network #
###########

variable "default_vpc_name" {
  description = "Name of the network, without the prefix."
  type        = string
  default     = "mongo"
  nullable    = false
}

variable "subnet_name" {
  description = "Name of the subnet, without the prefix."
  type        = string
  default     = "mongo-subnet"
  nullable    = false
}

variable "subnet_cidr" {
  description = "Addresses of the subnet."
  type        = string
  default     = "10.128.0.0/20"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2}$", var.subnet_cidr))
    error_message = "Addresses are written like 10.128.0.0/20."
  }
}

variable "source_ranges" {
  description = "Addresses that may connect by SSH and to the PMM server, several separated by commas. Unset, the address of whoever runs up."
  type        = string
  default     = null

  validation {
    condition     = var.source_ranges == null || can(regex("^[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2}( *, *[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2})*$", var.source_ranges))
    error_message = "Addresses are written like 203.0.113.7/32."
  }
}

###########
# Backups #
###########

variable "default_bucket_name" {
  description = "Name of the backup bucket, without the prefix."
  type        = string
  default     = "mongo-bkp-storage"
  nullable    = false
}

variable "backup_retention" {
  description = "Days that backups are kept."
  type        = number
  default     = 2
  nullable    = false
}

###############
# ClusterSync #
###############

variable "enable_pcsm" {
  description = "Create a machine for Percona ClusterSync."
  type        = bool
  default     = false
  nullable    = false
}

variable "pcsm_version" {
  description = "Version of ClusterSync."
  type        = string
  default     = "0.9.0"
  nullable    = false
}

variable "pcsm_type" {
  description = "Machine type of its machine."
  type        = string
  default     = "e2-small"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.pcsm_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "default_pcsm_host" {
  description = "Host name of its machine, without the prefix."
  type        = string
  default     = "pcsm"
  nullable    = false
}

variable "pcsm_source_kind" {
  description = "What the source is: cluster or replset."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = contains(["", "cluster", "replset"], var.pcsm_source_kind)
    error_message = "pcsm_source_kind is cluster or replset."
  }
}

variable "pcsm_source_name" {
  description = "Name of the source."
  type        = string
  default     = ""
  nullable    = false
}

variable "pcsm_target_kind" {
  description = "What the target is: cluster or replset."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = contains(["", "cluster", "replset"], var.pcsm_target_kind)
    error_message = "pcsm_target_kind is cluster or replset."
  }
}

variable "pcsm_target_name" {
  description = "Name of the target."
  type        = string
  default     = ""
  nullable    = false
}

#########################
# Certificate authority #
#########################

variable "enable_ca" {
  description = "Create a machine that signs certificates."
  type        = bool
  default     = false
  nullable    = false
}

variable "ca_placement" {
  description = "dedicated for a machine of its own, pmm for the PMM server's."
  type        = string
  default     = "dedicated"
  nullable    = false

  validation {
    condition     = contains(["dedicated", "pmm"], var.ca_placement)
    error_message = "ca_placement is dedicated or pmm."
  }
}

variable "ca_type" {
  description = "Machine type of the dedicated machine."
  type        = string
  default     = "e2-micro"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)+$", var.ca_type))
    error_message = "A machine type is written like n2-standard-4."
  }
}

variable "default_ca_host" {
  description = "Host name of the dedicated machine, without the prefix."
  type        = string
  default     = "ca-server"
  nullable    = false
}

########
# LDAP #
########

variable "ldap_servers" {
  description = "LDAP servers by name. Values are passwords in part and are never shown."
  type = map(object({
    domain         = optional(string, "example.com")
    organization   = optional(string, "Example Inc")
    admin_password = optional(string)
    machine_type   = optional(string, "e2-small")
    users = optional(list(object({
      uid      = string
      cn       = string
      sn       = string
      password = string
    })), [])
    mongodb_users = optional(list(object({
      user  = string
      roles = list(string)
    })), [])
  }))
  default   = {}
  nullable  = false
  sensitive = true
}
