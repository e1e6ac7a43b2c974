package environment

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"

	gcpconfig "github.com/mongo-sandbox/sandbox/terraform/gcp"
)

// publicVariables are the names that files written for the public sandbox
// variables may have.
const publicVariables = `prefix project_id region zone_mode compact_placement clusters replsets gce_ssh_users my_ssh_user
ssh_private_key_path enable_ssh_gateway ssh_gateway_name port_to_forward enable_pmm default_pmm_host pmm_disk_type pmm_type
pmm_volume_size pmm_port pmm_image enable_plgm plgm_type enable_ycsb ycsb_type enable_pcsm pcsm_version pcsm_source_kind
pcsm_source_name pcsm_target_kind pcsm_target_name pcsm_type enable_ca ca_placement ca_type default_bucket_name
backup_retention image use_spot_instances data_disk_type shardsvr_type shardsvr_volume_size configsvr_type
configsvr_volume_size mongos_type arbiter_type replsetsvr_type replsetsvr_volume_size min_cpu_platform nic_type
default_vpc_name subnet_name subnet_cidr source_ranges ldap_servers mongodb_distribution mongo_release mongo_version
mongo_repo mongot_repo pbm_version pbm_repo pmm_client_version pmm_client_repo`

const publicReplsetAttributes = `env_tag data_nodes_per_replset arbiters_per_replset mongodb_distribution mongo_release
mongo_version mongo_repo pbm_version pbm_repo pmm_client_version pmm_client_repo enable_pmm enable_pbm enable_mongot
mongot_source mongot_repo mongot_version enable_audit audit_filter use_tls ldap_server`

const publicClusterAttributes = `configsvr_count shard_count shardsvr_replicas arbiters_per_replset mongos_count`

func TestSchemaHasThePublicVariables(t *testing.T) {
	s, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(publicVariables) {
		if s.byName[name] == nil {
			t.Errorf("no variable %s", name)
		}
	}
	replset, cluster := s.byName["replsets"].attributes(), s.byName["clusters"].attributes()
	for name := range strings.FieldsSeq(publicReplsetAttributes) {
		if !slices.Contains(replset, name) {
			t.Errorf("replsets has no %s", name)
		}
		if name != "data_nodes_per_replset" && !slices.Contains(cluster, name) {
			t.Errorf("clusters has no %s", name)
		}
	}
	for name := range strings.FieldsSeq(publicClusterAttributes) {
		if !slices.Contains(cluster, name) {
			t.Errorf("clusters has no %s", name)
		}
	}
	for _, f := range environmentFeatures() {
		if s.byName[f.name] == nil {
			t.Errorf("a feature names the variable %s, which there is not", f.name)
		}
	}
	for _, f := range replsetFeatures() {
		if !slices.Contains(replset, f.name) {
			t.Errorf("a feature names the attribute %s, which there is not", f.name)
		}
	}
}

// Every default must pass its own validations, every validation must look at
// its own variable alone (Load evaluates it with nothing else), and values
// that it refuses must exist: the cases of testdata/problems have one each.
func TestSchemaValidations(t *testing.T) {
	s, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.variables {
		if messages := v.validate(v.value); len(messages) > 0 {
			t.Errorf("the default of %s is refused: %v", v.name, messages)
		}
		if !v.nullable && v.value.IsNull() {
			t.Errorf("%s is not nullable and has no default", v.name)
		}
		for _, check := range v.validations {
			for _, traversal := range check.condition.Variables() {
				if got := string(hclwrite.TokensForTraversal(traversal).Bytes()); got != "var."+v.name {
					t.Errorf("a validation of %s looks at %s", v.name, got)
				}
			}
		}
	}
}

func TestSchemaIsFormatted(t *testing.T) {
	text, err := gcpconfig.Files.ReadFile(gcpconfig.VariablesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, hclwrite.Format(text)) {
		t.Error("variables.tf is not formatted as terraform fmt does")
	}
}

// On the local platform every variable either shapes the deployments, or is
// said not to be applied: none may be dropped in silence.
func TestEveryVariableIsAccountedFor(t *testing.T) {
	s, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	effective := []string{"platform", "prefix", "replsets", "mongodb_distribution", "mongo_release", "mongo_version", "wiredtiger_cache_gb"}
	for _, f := range environmentFeatures() {
		effective = append(effective, f.name)
	}
	l := newLoader(Options{})
	l.schema = s
	for _, v := range s.variables {
		if applied := l.notApplied(v.name, Local) == ""; applied != slices.Contains(effective, v.name) {
			t.Errorf("%s: has an effect on the local platform: %v", v.name, applied)
		}
	}
	effective = []string{"data_nodes_per_replset", "arbiters_per_replset", "mongodb_distribution", "mongo_release", "mongo_version", "wiredtiger_cache_gb", "enable_pmm"}
	for _, f := range replsetFeatures() {
		effective = append(effective, f.name)
	}
	for _, attr := range s.byName["replsets"].attributes() {
		if applied := l.notApplied(attr, Local) == ""; attr != "enable_pmm" && applied != slices.Contains(effective, attr) {
			t.Errorf("replsets %s: has an effect on the local platform: %v", attr, applied)
		}
	}
}

func TestBrokenSchema(t *testing.T) {
	for _, text := range []string{
		`variable "a" {`,
		`variable "a" {}`,
		"variable \"a\" {\n description = \"\"\n type = number\n default = \"x\"\n}",
		"variable \"a\" {\n description = \"\"\n type = strin\n default = null\n}",
		"output \"a\" {}",
	} {
		if _, diags := parseSchema([]byte(text), "x.tf"); !diags.HasErrors() {
			t.Errorf("accepted: %s", text)
		}
	}
}

func TestNearest(t *testing.T) {
	s, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"replset": "replsets", "Region": "region", "regoin": "region", "mongo_versio": "mongo_version",
		"enable_pm": "enable_pmm", "xyzzy": "", strings.Repeat("x", 1000): "",
	} {
		if got := nearest(name, s.names()); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
