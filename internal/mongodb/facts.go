package mongodb

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Facts are what decides whether two members may be compared.
type Facts struct {
	Version    string
	GitVersion string
	Embedded   bool   // the stand-in engine, by its own word
	FCV        string // feature compatibility version, X.Y
	State      string // as Hello.State
	Machine    Machine
	// Settings should be equal between members that are compared, whatever
	// their addresses and paths: "setParameter.x", "cmdLine.x.y",
	// "default.writeConcern", "storage.engine", "wiredTiger.cache_bytes",
	// "memory.thp_enabled", "disk.file_system", …
	Settings map[string]string
	// Missing names, in order, the commands that a member did not answer
	// (an arbiter, an old version, too few privileges) and why.
	Missing []string
}

// Machine describes the computer a member runs on, as far as it tells.
type Machine struct {
	OS       string
	Kernel   string
	CPUModel string
	CPUs     int   // logical, available to the process
	MemoryMB int64 // MiB, as limited for the process
}

// comparedParameters are the server parameters that change what a command
// costs. Which of them exist depends on the version; a server answers with
// those it knows.
var comparedParameters = [...]string{
	"diagnosticDataCollectionEnabled", // FTDC
	"enableFlowControl",
	"enableTestCommands",
	"flowControlTargetLagSeconds",
	"internalQueryFrameworkControl", // classic or SBE
	"internalQueryStatsRateLimit",
	"internalQueryStatsSampleRate", // $queryStats, on by default since 9.0
	"journalCommitInterval",
	"notablescan",
	"replWriterThreadCount",
	"storageEngineConcurrencyAdjustmentAlgorithm",
	"storageEngineConcurrentReadTransactions",
	"storageEngineConcurrentWriteTransactions",
	"syncdelay", // seconds between checkpoints
	"tcmallocEnableBackgroundThread",
	"ttlMonitorEnabled",
	"wiredTigerConcurrentReadTransactions",
	"wiredTigerConcurrentWriteTransactions",
	"writePeriodicNoops",
}

// ownOptions are the command-line options in which members differ by
// nature, and that say nothing about speed.
var ownOptions = [...]string{
	"config", "net.port", "net.bindIp", "net.unixDomainSocket", "processManagement", "replication.replSetName",
	"security.keyFile", "storage.dbPath", "systemLog",
}

// Facts asks the member of a direct connection. Only a member that does not
// answer hello at all is an error.
func (c *Client) Facts(ctx context.Context) (Facts, error) {
	hello, err := c.Hello(ctx)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{State: hello.State(), Settings: map[string]string{}}
	ask := func(command bson.D) (bson.Raw, bool) {
		var reply bson.Raw
		if err := c.run(ctx, command, &reply); err != nil {
			f.Missing = append(f.Missing, err.Error())
			return nil, false
		}
		return reply, true
	}

	if info, err := c.BuildInfo(ctx); err != nil {
		f.Missing = append(f.Missing, err.Error())
	} else {
		f.Version, f.GitVersion, f.Embedded = info.Version, info.GitVersion, info.Embedded
		set(f.Settings, "buildInfo.allocator", info.Allocator)
		set(f.Settings, "buildInfo.modules", strings.Join(info.Modules, ","))
	}

	if reply, ok := ask(bson.D{{Key: "getParameter", Value: 1}, {Key: "featureCompatibilityVersion", Value: 1}}); ok {
		f.FCV, _ = reply.Lookup("featureCompatibilityVersion", "version").StringValueOK()
	}
	parameters := bson.D{{Key: "getParameter", Value: 1}}
	for _, name := range comparedParameters {
		parameters = append(parameters, bson.E{Key: name, Value: 1})
	}
	if reply, ok := ask(parameters); ok {
		for _, name := range comparedParameters {
			set(f.Settings, "setParameter."+name, text(reply.Lookup(name)))
		}
	}

	dbPath := ""
	if reply, ok := ask(bson.D{{Key: "getCmdLineOpts", Value: 1}}); ok {
		if parsed, ok := reply.Lookup("parsed").DocumentOK(); ok {
			dbPath = text(parsed.Lookup("storage", "dbPath"))
			flattenOptions(f.Settings, "", parsed)
		}
	}
	if reply, ok := ask(bson.D{{Key: "getDefaultRWConcern", Value: 1}}); ok {
		set(f.Settings, "default.writeConcern", text(reply.Lookup("defaultWriteConcern")))
		set(f.Settings, "default.readConcern", text(reply.Lookup("defaultReadConcern")))
	}
	if reply, ok := ask(bson.D{{Key: "serverStatus", Value: 1}}); ok {
		if f.Version == "" { // an arbiter answers this, and not buildInfo
			f.Version, _ = reply.Lookup("version").StringValueOK()
		}
		set(f.Settings, "storage.engine", text(reply.Lookup("storageEngine", "name")))
		set(f.Settings, "wiredTiger.cache_bytes", text(reply.Lookup("wiredTiger", "cache", "maximum bytes configured")))
		set(f.Settings, "tcmalloc.per_cpu_caches", text(reply.Lookup("tcmalloc", "usingPerCPUCaches")))
	}
	diagnostic, _ := ask(diagnosticCommand()) // Sample wants it, too
	if reply, ok := ask(bson.D{{Key: "hostInfo", Value: 1}}); ok {
		f.Machine = machine(reply)
		set(f.Settings, "host.numa", text(reply.Lookup("system", "numaEnabled")))
		addMemoryFacts(f.Settings, reply)
		addDiskFacts(f.Settings, reply, diagnostic, dbPath)
	}
	sort.Strings(f.Missing)
	return f, nil
}

// machine reads hostInfo. Where it says what CPU this is depends on the
// operating system and the version.
func machine(info bson.Raw) Machine {
	first := func(paths ...[]string) string {
		for _, path := range paths {
			if s := text(info.Lookup(path...)); s != "" {
				return s
			}
		}
		return ""
	}
	m := Machine{
		OS:       strings.TrimSpace(first([]string{"os", "name"}, []string{"os", "type"}) + " " + first([]string{"os", "version"})),
		Kernel:   first([]string{"extra", "kernelVersion"}, []string{"extra", "versionString"}),
		CPUModel: first([]string{"extra", "cpuString"}, []string{"extra", "extra", "cpuString"}, []string{"system", "cpuArch"}),
	}
	if n, ok := number(info.Lookup("system", "numCoresAvailableToProcess")); ok && n > 0 {
		m.CPUs = int(n)
	} else if n, ok := number(info.Lookup("system", "numCores")); ok {
		m.CPUs = int(n)
	}
	if n, ok := number(info.Lookup("system", "memLimitMB")); ok && n > 0 {
		m.MemoryMB = int64(n)
	} else if n, ok := number(info.Lookup("system", "memSizeMB")); ok {
		m.MemoryMB = int64(n)
	}
	return m
}

// flattenOptions adds the parsed options as "cmdLine.a.b", without those in
// which members differ by nature and without anything that sounds secret.
func flattenOptions(into map[string]string, prefix string, options bson.Raw) {
	elements, err := options.Elements()
	if err != nil {
		return
	}
	for _, element := range elements {
		path := prefix + element.Key()
		if isOwnOption(path) || soundsSecret(path) {
			continue
		}
		if inner, ok := element.Value().DocumentOK(); ok {
			flattenOptions(into, path+".", inner)
			continue
		}
		set(into, "cmdLine."+path, text(element.Value()))
	}
}

func isOwnOption(path string) bool {
	for _, own := range ownOptions {
		if path == own || strings.HasPrefix(path, own+".") {
			return true
		}
	}
	return false
}

func soundsSecret(path string) bool {
	lower := strings.ToLower(path)
	return strings.Contains(lower, "password") || strings.Contains(lower, "secret") || strings.Contains(lower, "token")
}

func set(into map[string]string, key, value string) {
	if value != "" {
		into[key] = value
	}
}

// text renders a value for comparison: numbers without their BSON type,
// documents as extended JSON, nothing as "".
func text(v bson.RawValue) string {
	switch v.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return ""
	case bson.TypeString:
		return v.StringValue()
	case bson.TypeBoolean:
		return strconv.FormatBool(v.Boolean())
	}
	if n, ok := number(v); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return v.String()
}

// number reads any numeric or boolean value; false is 0, true is 1. Dates
// and non-finite numbers are none.
func number(v bson.RawValue) (float64, bool) {
	switch v.Type {
	case bson.TypeInt32:
		return float64(v.Int32()), true
	case bson.TypeInt64:
		return float64(v.Int64()), true
	case bson.TypeDouble:
		d := v.Double()
		return d, !math.IsNaN(d) && !math.IsInf(d, 0)
	case bson.TypeBoolean:
		if v.Boolean() {
			return 1, true
		}
		return 0, true
	case bson.TypeDecimal128:
		d, err := strconv.ParseFloat(fmt.Sprint(v.Decimal128()), 64)
		return d, err == nil && !math.IsNaN(d) && !math.IsInf(d, 0)
	default:
		return 0, false
	}
}
