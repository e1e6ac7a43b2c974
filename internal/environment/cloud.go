package environment

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// cloud collects what the variables say of the cloud as a whole.
func (l *loader) cloud(spec *Spec, prefix string) *Cloud {
	c := &Cloud{
		Project: l.text("project_id"), Region: l.text("region"), Prefix: prefix,
		MultiZone: l.text("zone_mode") == "multi", CompactPlacement: l.is("compact_placement"),
		Spot: l.is("use_spot_instances"), MinCPUPlatform: l.text("min_cpu_platform"),
		Image: l.image(),
		SSH:   SSHLogin{User: l.text("my_ssh_user"), KeyFile: l.text("ssh_private_key_path")},
	}
	for address := range strings.SplitSeq(l.text("source_ranges"), ",") {
		if address = strings.TrimSpace(address); address != "" {
			c.SourceRanges = append(c.SourceRanges, address)
		}
	}
	if l.is("enable_ssh_gateway") {
		l.problems.refuse(l.keyAt("enable_ssh_gateway"), "Not supported yet", "The environment asks for a jump host (enable_ssh_gateway), which this version does not use.", "Remove enable_ssh_gateway: machines are reached directly.")
	}
	for _, m := range spec.Machines {
		if m.Role == Monitoring {
			c.PMM = &PMMServer{Machine: m.Name, Image: l.text("pmm_image")}
			c.PMM.Port, _ = wholeNumber(l.value("pmm_port"))
			c.PMM.ForwardPort, _ = strconv.Atoi(l.text("port_to_forward"))
		}
	}
	return c
}

// defaultImage is the one that the Terraform configuration takes when the
// variable image is unset.
const defaultImage = "projects/centos-cloud/global/images/family/centos-stream-9"

// image is the boot image of the region. One that the map lacks is refused:
// Terraform would fail on it.
func (l *loader) image() string {
	value := l.value("image")
	if value == cty.NilVal || value.IsNull() {
		return defaultImage
	}
	if value.Type() == cty.String {
		return value.AsString()
	}
	region := l.text("region")
	for key, element := range elements(value) {
		if key == region {
			return textOf(element)
		}
	}
	l.problems.refuse(l.keyAt("image"), "No image", "The image is a map without an entry for the region "+strconv.Quote(region)+".", "Add "+region+" to it, or write one image as a text.")
	return ""
}

// variables are the sources, with names that do not depend on the folder.
func (l *loader) variables() Variables {
	absolute := func(name string) string {
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.Dir, name)
		}
		if path, err := filepath.Abs(name); err == nil {
			return path
		}
		return name
	}
	v := Variables{Args: slices.Clone(l.Args)}
	for _, entry := range l.Environ {
		if strings.HasPrefix(entry, "TF_VAR_") {
			v.Environ = append(v.Environ, entry)
		}
	}
	for _, name := range l.automatic {
		v.Files = append(v.Files, absolute(name))
	}
	for i, arg := range v.Args {
		if arg.Kind == VarFile {
			v.Args[i].Value = absolute(arg.Value)
		}
	}
	return v
}
