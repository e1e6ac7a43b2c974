package embedded

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/process"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const storageEngine = "sandboxEmbedded"

func (s *Server) buildInfo(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	return append(describeBuild(s.cfg.Version), bson.E{Key: "maxBsonObjectSize", Value: int32(maxDocumentSize)}), nil
}

// describeBuild is buildInfo, and the second half of mongod --version.
func describeBuild(version string) bson.D {
	return bson.D{
		{Key: "version", Value: version},
		{Key: "sandboxEmbedded", Value: true},
		{Key: "gitVersion", Value: revision()},
		{Key: "modules", Value: bson.A{}},
		{Key: "allocator", Value: "go"},
		{Key: "javascriptEngine", Value: "none"},
		{Key: "versionArray", Value: versionArray(version)},
		{Key: "buildEnvironment", Value: bson.D{
			{Key: "compiler", Value: runtime.Version()},
			{Key: "target_os", Value: runtime.GOOS},
			{Key: "target_arch", Value: runtime.GOARCH},
		}},
		{Key: "bits", Value: int32(strconv.IntSize)},
		{Key: "debug", Value: false},
		{Key: "storageEngines", Value: bson.A{storageEngine}},
	}
}

// revision is the commit this program was built from, as far as the Go
// toolchain noted it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "unknown"
}

// versionArray splits "9.0.4" or "0.1.0-x" as buildInfo does.
func versionArray(version string) bson.A {
	numbers, _, _ := strings.Cut(version, "-")
	parts := bson.A{}
	for part := range strings.SplitSeq(numbers, ".") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			n = 0
		}
		parts = append(parts, int32(n))
	}
	for len(parts) < 4 {
		parts = append(parts, int32(0))
	}
	return parts
}

// featureVersion is the feature compatibility version: the series of a
// stand-in's version, else the one whose wire version is spoken.
func (s *Server) featureVersion() string {
	parts := strings.SplitN(s.cfg.Version, ".", 3)
	if major, err := strconv.Atoi(parts[0]); err == nil && major >= 4 && len(parts) > 1 {
		return parts[0] + "." + parts[1]
	}
	return "8.0"
}

func (s *Server) serverStatus(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	// Any name may be given to switch a section on or off.
	userUS, systemUS, faults := processUsage()
	uptime := time.Since(s.started)
	k := &s.counters
	s.mu.Lock()
	current := int64(len(s.conns))
	s.mu.Unlock()
	available := int64(1_000_000)
	if s.cfg.MaxConns > 0 {
		available = int64(s.cfg.MaxConns)
	}
	sections := bson.D{
		{Key: "connections", Value: bson.D{
			{Key: "current", Value: int32(current)},
			{Key: "available", Value: int32(max(available-current, 0))},
			{Key: "totalCreated", Value: k.totalCreated.Load()},
		}},
		{Key: "extra_info", Value: bson.D{
			{Key: "note", Value: "of the process that serves this server"},
			{Key: "user_time_us", Value: userUS},
			{Key: "system_time_us", Value: systemUS},
			{Key: "page_faults", Value: faults},
		}},
		{Key: "logicalSessionRecordCache", Value: bson.D{
			{Key: "activeSessionsCount", Value: int32(s.sessions.count())},
		}},
		{Key: "mem", Value: memory(ctx)},
		{Key: "network", Value: bson.D{
			{Key: "bytesIn", Value: k.bytesIn.Load()},
			{Key: "bytesOut", Value: k.bytesOut.Load()},
			{Key: "numRequests", Value: k.requests.Load()},
		}},
		{Key: "opcounters", Value: bson.D{
			{Key: "insert", Value: k.insert.Load()},
			{Key: "query", Value: k.query.Load()},
			{Key: "update", Value: k.update.Load()},
			{Key: "delete", Value: k.deletes.Load()},
			{Key: "getmore", Value: k.getmore.Load()},
			{Key: "command", Value: k.command.Load()},
		}},
		{Key: "security", Value: bson.D{
			{Key: "authenticationFailures", Value: k.failedLogins.Load()},
		}},
		{Key: "storageEngine", Value: bson.D{
			{Key: "name", Value: storageEngine},
			{Key: "persistent", Value: false},
			{Key: "readOnly", Value: false},
		}},
		{Key: "transactions", Value: bson.D{
			{Key: "retriedStatementsCount", Value: k.retriedWrites.Load()},
			{Key: "totalStarted", Value: k.txnStarted.Load()},
			{Key: "totalCommitted", Value: k.txnCommitted.Load()},
			{Key: "totalAborted", Value: k.txnAborted.Load()},
		}},
	}
	if s.repl != nil {
		sections = append(sections, bson.E{Key: "repl", Value: append(
			s.repl.view.Load().hello("isWritablePrimary", s.lastOp.Load()),
			bson.E{Key: "forwardedReads", Value: k.forwardedOps.Load()})})
	}
	d := bson.D{
		{Key: "host", Value: s.hostPort()},
		{Key: "version", Value: s.cfg.Version},
		{Key: "sandboxEmbedded", Value: true},
		{Key: "process", Value: "mongod"},
		{Key: "pid", Value: int64(os.Getpid())},
		{Key: "uptime", Value: uptime.Seconds()},
		{Key: "uptimeMillis", Value: uptime.Milliseconds()},
		{Key: "uptimeEstimate", Value: int64(uptime.Seconds())},
		{Key: "localTime", Value: time.Now()},
	}
	for _, section := range sections {
		if e, ok := find(q.Body, section.Key); ok {
			if on, isBool := e.truth(); isBool && !on {
				continue
			}
		}
		d = append(d, section)
	}
	return d, nil
}

// memory is serverStatus.mem, in MiB.
func memory(ctx context.Context) bson.D {
	d := bson.D{{Key: "bits", Value: int32(strconv.IntSize)}}
	p, err := process.NewProcessWithContext(ctx, int32(os.Getpid()))
	if err != nil {
		return append(d, bson.E{Key: "supported", Value: false})
	}
	info, err := p.MemoryInfoWithContext(ctx)
	if err != nil {
		return append(d, bson.E{Key: "supported", Value: false})
	}
	return append(d,
		bson.E{Key: "resident", Value: int32(info.RSS >> 20)},
		bson.E{Key: "virtual", Value: int32(info.VMS >> 20)},
		bson.E{Key: "supported", Value: true})
}

// hostPort is the name of this server in its own words.
func (s *Server) hostPort() string {
	_, port, ok := strings.Cut(s.addr, ":")
	if i := strings.LastIndexByte(s.addr, ':'); ok && i >= 0 {
		port = s.addr[i+1:]
	}
	return s.hostname + ":" + port
}

func (s *Server) hostInfo(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	system := bson.D{
		{Key: "currentTime", Value: time.Now()},
		{Key: "hostname", Value: s.hostPort()},
		{Key: "cpuAddrSize", Value: int32(strconv.IntSize)},
		{Key: "numCores", Value: int32(runtime.NumCPU())},
		{Key: "numCoresAvailableToProcess", Value: int32(runtime.GOMAXPROCS(0))},
		{Key: "cpuArch", Value: cpuArch()},
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		system = append(system,
			bson.E{Key: "memSizeMB", Value: int64(m.Total >> 20)}, bson.E{Key: "memLimitMB", Value: int64(m.Total >> 20)})
	}
	facts := s.hostFacts()
	return bson.D{{Key: "system", Value: system}, {Key: "os", Value: facts.os}, {Key: "extra", Value: facts.extra}}, nil
}

// hostFacts are the parts of hostInfo that stay the same.
type hostFacts struct{ os, extra bson.D }

// readHostFacts takes a while: it may start a program of the distribution.
func readHostFacts() hostFacts {
	f := hostFacts{os: bson.D{{Key: "type", Value: osType()}}, extra: bson.D{}}
	if h, err := host.Info(); err == nil {
		f.os = append(f.os, bson.E{Key: "name", Value: h.Platform}, bson.E{Key: "version", Value: h.PlatformVersion})
		f.extra = append(f.extra, bson.E{Key: "kernelVersion", Value: h.KernelVersion})
	}
	if c, err := cpu.Info(); err == nil && len(c) > 0 {
		f.extra = append(f.extra, bson.E{Key: "cpuString", Value: strings.TrimSpace(c[0].ModelName)})
	}
	f.extra = append(f.extra, kernelFacts("/")...)
	return f
}

func cpuArch() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

func osType() string {
	switch runtime.GOOS {
	case "linux":
		return "Linux"
	case "darwin":
		return "Darwin"
	}
	return runtime.GOOS
}

func (s *Server) getCmdLineOpts(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	parsed := s.cfg.Parsed
	if parsed == nil {
		parsed = bson.D{}
	}
	return bson.D{{Key: "argv", Value: slices.Clone(s.cfg.Argv)}, {Key: "parsed", Value: parsed}}, nil
}

// parameters are the server parameters that mean something here.
type parameters struct {
	lifetime time.Duration // transactionLifetimeLimitSeconds
	set      bson.D        // what setParameter said, as getParameter answers it
}

func defaultParameters() parameters { return parameters{lifetime: time.Minute} }

func (s *Server) getParameter(_ context.Context, _ *conn, q *request) (bson.D, error) {
	all := bson.D{
		{Key: "authenticationMechanisms", Value: bson.A{mechanism}},
		{Key: "enableTestCommands", Value: true},
		{Key: "featureCompatibilityVersion", Value: bson.D{{Key: "version", Value: s.featureVersion()}}},
		{Key: "localLogicalSessionTimeoutMinutes", Value: int32(sessionTimeout / time.Minute)},
		{Key: "maxBSONDepth", Value: int32(maxDepth)},
		{Key: "scramSHA256IterationCount", Value: int32(userIterations)},
		{Key: "transactionLifetimeLimitSeconds", Value: int32(s.cfg.parameters.lifetime / time.Second)},
	}
	for _, e := range s.cfg.parameters.set {
		if !slices.ContainsFunc(all, func(known bson.E) bool { return known.Key == e.Key }) {
			all = append(all, e)
		}
	}
	want := map[string]bool{}
	everything := false
	if name, ok := q.first.text(); ok && name == "*" {
		everything = true
	} else if doc, ok := q.first.document(); ok {
		if e, given := find(doc, "allParameters"); given {
			everything, _ = e.truth()
		}
	}
	f := fieldsOf(q.Body)
	_, _ = f.next()
	for {
		e, more := f.next()
		if !more {
			break
		}
		if key := string(e.key); !isGeneric(key) {
			want[key] = true
		}
	}
	d := bson.D{}
	for _, e := range all {
		if everything || want[e.Key] {
			d = append(d, e)
		}
	}
	if len(d) == 0 {
		return nil, invalidOptions("no option found to get")
	}
	return d, nil
}

// shutdown ends the server; the client sees its connection closed. A primary
// with other members hands over first, unless force is given.
func (s *Server) shutdown(ctx context.Context, c *conn, q *request) (bson.D, error) {
	if err := q.only("force", "timeoutSecs"); err != nil {
		return nil, err
	}
	if s.cfg.Authorization && c.login.user == nil || !c.loopback && !s.cfg.Authorization {
		return nil, failf(codeUnauthorized, "Unauthorized", "shutdown must run from localhost when running db without auth")
	}
	force, timeout := false, 15*time.Second
	if e, ok := find(q.Body, "force"); ok {
		force, _ = e.truth()
	}
	if e, ok := find(q.Body, "timeoutSecs"); ok {
		if n, isNumber := e.number(); isNumber && n >= 0 && n < 1<<31 {
			timeout = time.Duration(n) * time.Second
		}
	}
	if s.repl != nil {
		if err := s.repl.handOverBeforeEnd(ctx, timeout); err != nil && !force {
			return nil, err
		}
	}
	s.log.Info("shutdown command", "client", c.nc.RemoteAddr().String())
	s.askForEnd()
	return nil, errHangUp
}
