output "inventory" {
  description = "Every machine: its names, addresses and what it is for."
  value = [
    for host, machine in local.machines : {
      name         = host
      role         = machine.role # data, arbiter, load host or monitoring
      deployment   = machine.deployment
      zone         = machine.zone
      type         = machine.type
      disk         = machine.disk_gb != null
      id           = google_compute_instance.machine[host].instance_id
      cpu_platform = google_compute_instance.machine[host].cpu_platform
      internal_ip  = google_compute_instance.machine[host].network_interface[0].network_ip
      external_ip  = try(google_compute_instance.machine[host].network_interface[0].access_config[0].nat_ip, "")
    }
  ]
}
