# What `sandbox` computes and sets itself, in a file that it puts behind the
# user's. Environment files do not have these: variables.tf has theirs.

variable "environment" {
  description = "Name of the environment."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,30}$", var.environment))
    error_message = "A name has 1 to 31 lower-case letters, digits and hyphens."
  }
}

variable "owner" {
  description = "Who made the environment, as a label."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9_-]{0,63}$", var.owner))
    error_message = "A label has up to 63 lower-case letters, digits, hyphens and underscores."
  }
}

variable "created" {
  description = "When the environment was made first, as a label."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9_-]{0,63}$", var.created))
    error_message = "A label has up to 63 lower-case letters, digits, hyphens and underscores."
  }
}

variable "ttl" {
  description = "How long it is meant to live, as a label."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9_-]{0,63}$", var.ttl))
    error_message = "A label has up to 63 lower-case letters, digits, hyphens and underscores."
  }
}

variable "zones" {
  description = "Zones of the region, in the order they are used. Unset, all that there are, by name."
  type        = list(string)
  default     = null
}

variable "caller_range" {
  description = "Addresses that may connect when source_ranges is unset."
  type        = string
  default     = null
}

variable "ssh_user" {
  description = "User that logs in with ssh_public_key."
  type        = string
  default     = "sandbox"
  nullable    = false
}

variable "ssh_public_key" {
  description = "Public key that may log in, beside those of gce_ssh_users."
  type        = string
  default     = null
}

variable "base_folder" {
  description = "Folder that relative paths in the variable files start at."
  type        = string
  default     = "."
  nullable    = false
}
