package mongodb

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

func document(t *testing.T, extended string) bson.Raw {
	t.Helper()
	var raw bson.Raw
	if err := bson.UnmarshalExtJSON([]byte(extended), true, &raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestServerValuesFollowRenames(t *testing.T) {
	common := `"pid": {"$numberLong": "42"}, "uptime": {"$numberDouble": "7.0"}, "uptimeMillis": {"$numberLong": "7250"},
		"extra_info": {"user_time_us": {"$numberLong": "1500"}, "system_time_us": {"$numberLong": "300"}}`
	want := map[string]float64{CPUUser: 1500, CPUSystem: 300, ProcessID: 42, Uptime: 7.25,
		"checkpoint.count": 9, "checkpoint.total_ms": 812, "checkpoint.last_ms": 90, "cache.application_evictions": 77,
		"cache.application_eviction_us": 6100, "cache.application_wait_us": 7300,
		"tickets.read_out": 1, "tickets.read_available": 127, "tickets.read_total": 128, "tickets.read_queue": 3, "tickets.read_queued_us": 4500}
	for version, status := range map[string]string{
		"7.0": `{` + common + `, "wiredTiger": {
			"transaction": {"transaction checkpoints": {"$numberLong": "9"}, "transaction checkpoint total time (msecs)": {"$numberLong": "812"},
				"transaction checkpoint most recent time (msecs)": {"$numberLong": "90"}},
			"cache": {"pages evicted by application threads": {"$numberLong": "77"}},
			"thread-yield": {"application thread time evicting (usecs)": {"$numberLong": "6100"}, "application thread time waiting for cache (usecs)": {"$numberLong": "7300"}},
			"concurrentTransactions": {"read": {"out": {"$numberInt": "1"}, "available": {"$numberInt": "127"}, "totalTickets": {"$numberInt": "128"},
				"normalPriority": {"queueLength": {"$numberLong": "3"}, "totalTimeQueuedMicros": {"$numberLong": "4500"}}}}}}`,
		"8.0": `{` + common + `, "wiredTiger": {
			"checkpoint": {"total succeed number of checkpoints": {"$numberLong": "9"}, "number of checkpoints started by api": {"$numberLong": "10"},
				"total time (msecs)": {"$numberLong": "812"}, "most recent time (msecs)": {"$numberLong": "90"}},
			"thread-yield": {"application thread time waiting for cache (usecs)": {"$numberLong": "7300"}},
			"cache": {"page evict attempts by application threads": {"$numberLong": "77"}, "application thread time evicting (usecs)": {"$numberLong": "6100"}}},
			"queues": {"execution": {"read": {"out": {"$numberInt": "1"}, "available": {"$numberInt": "127"}, "totalTickets": {"$numberInt": "128"},
				"queueLength": {"$numberLong": "99"},
				"normalPriority": {"queueLength": {"$numberLong": "3"}, "totalTimeQueuedMicros": {"$numberLong": "4500"}}}}}}`,
	} {
		if diff := cmp.Diff(want, serverValues(document(t, status))); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
	}
	waits := serverValues(document(t, `{
		"flowControl": {"enabled": true, "targetRateLimit": {"$numberInt": "1000000000"}, "timeAcquiringMicros": {"$numberLong": "402"},
			"isLagged": false, "isLaggedCount": {"$numberInt": "2"}, "isLaggedTimeMicros": {"$numberLong": "990"}},
		"metrics": {"getLastError": {"wtime": {"num": {"$numberInt": "7"}, "totalMillis": {"$numberInt": "21"}}}}}`))
	if diff := cmp.Diff(map[string]float64{
		"flowcontrol.enabled": 1, "flowcontrol.target_rate": 1e9, "flowcontrol.waited_us": 402, "flowcontrol.lagged": 2, "flowcontrol.lagged_us": 990,
		"writeconcern.waits": 7, "writeconcern.wait_ms": 21,
	}, waits); diff != "" {
		t.Error(diff)
	}
	if got := serverValues(document(t, `{"uptime": {"$numberDouble": "3.5"}, "pid": "no number"}`)); got[Uptime] != 3.5 || len(got) != 1 {
		t.Errorf("absent values must stay absent: %v", got)
	}
}

func TestSampledNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range sampledValues {
		if seen[v.name] || len(v.paths) == 0 {
			t.Errorf("%s is there twice or has no source", v.name)
		}
		seen[v.name] = true
	}
}

func TestReplicationValues(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := ReplicaSetStatus{Term: 4, Members: []MemberStatus{
		{StateName: "PRIMARY", Health: 1, OpTimeDate: at.Add(1500 * time.Millisecond)},
		{StateName: "SECONDARY", Health: 1, OpTimeDate: at, Self: true},
	}}
	values := map[string]float64{}
	state, err := replicationValues(set, values)
	if diff := cmp.Diff(map[string]float64{ElectionTerm: 4, replLag: 1.5}, values); diff != "" || state != "SECONDARY" || err != nil {
		t.Error(state, err, diff)
	}
	set.Members[0].OpTimeDate = at.Add(-time.Second) // a heartbeat old
	if _, _ = replicationValues(set, values); values[replLag] != 0 {
		t.Errorf("lag %v, want 0", values[replLag])
	}
	set.Members = set.Members[:1]
	if _, err := replicationValues(set, values); err == nil {
		t.Error("a status without the member itself was taken")
	}
}

func TestFlattenOptionsHidesWhatIsOwnOrSecret(t *testing.T) {
	got := map[string]string{}
	flattenOptions(got, "", document(t, `{
		"config": "/x/mongod.conf",
		"net": {"port": {"$numberInt": "27017"}, "bindIp": "127.0.0.1", "maxIncomingConnections": {"$numberInt": "100"},
			"tls": {"certificateKeyFilePassword": "hunter2"}},
		"security": {"keyFile": "/x/keyfile", "authorization": "enabled", "ldap": {"bind": {"queryPassword": "hunter2"}}},
		"storage": {"dbPath": "/x/data", "wiredTiger": {"engineConfig": {"cacheSizeGB": {"$numberDouble": "0.25"}}}},
		"systemLog": {"path": "/x/log", "destination": "file"},
		"setParameter": {"ttlMonitorEnabled": "false"},
		"replication": {"replSetName": "rs0", "oplogSizeMB": {"$numberInt": "990"}}}`))
	want := map[string]string{
		"cmdLine.net.maxIncomingConnections":                  "100",
		"cmdLine.security.authorization":                      "enabled",
		"cmdLine.storage.wiredTiger.engineConfig.cacheSizeGB": "0.25",
		"cmdLine.setParameter.ttlMonitorEnabled":              "false",
		"cmdLine.replication.oplogSizeMB":                     "990",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMachine(t *testing.T) {
	linux := document(t, `{"system": {"memSizeMB": {"$numberLong": "16000"}, "memLimitMB": {"$numberLong": "8000"}, "numCores": {"$numberInt": "8"}, "numCoresAvailableToProcess": {"$numberInt": "4"}, "cpuArch": "x86_64"},
		"os": {"type": "Linux", "name": "Ubuntu", "version": "24.04"}, "extra": {"kernelVersion": "6.8.0", "cpuString": "Xeon"}}`)
	if diff := cmp.Diff(Machine{OS: "Ubuntu 24.04", Kernel: "6.8.0", CPUModel: "Xeon", CPUs: 4, MemoryMB: 8000}, machine(linux)); diff != "" {
		t.Error(diff)
	}
	old := document(t, `{"system": {"memSizeMB": {"$numberLong": "16000"}, "numCores": {"$numberInt": "8"}, "cpuArch": "arm64"}, "os": {"type": "Darwin"}, "extra": {"versionString": "24.1"}}`)
	if diff := cmp.Diff(Machine{OS: "Darwin", Kernel: "24.1", CPUModel: "arm64", CPUs: 8, MemoryMB: 16000}, machine(old)); diff != "" {
		t.Error(diff)
	}
}

func TestHelloState(t *testing.T) {
	tests := map[string]Hello{
		"PRIMARY":    {SetName: "rs", IsWritablePrimary: true},
		"SECONDARY":  {SetName: "rs", Secondary: true},
		"ARBITER":    {SetName: "rs", ArbiterOnly: true},
		"STANDALONE": {IsWritablePrimary: true},
		"MONGOS":     {IsWritablePrimary: true, Message: "isdbgrid"},
		"OTHER":      {SetName: "rs"},
	}
	for want, hello := range tests {
		if got := hello.State(); got != want {
			t.Errorf("%+v is %s, want %s", hello, got, want)
		}
	}
}

func TestOpTimeOrder(t *testing.T) {
	ordered := []OpTime{
		{Term: 1, TS: bson.Timestamp{T: 9, I: 9}},
		{Term: 2, TS: bson.Timestamp{T: 3, I: 1}},
		{Term: 2, TS: bson.Timestamp{T: 3, I: 2}},
		{Term: 2, TS: bson.Timestamp{T: 4, I: 1}},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Before(b); got != (i < j) {
				t.Errorf("%v before %v: %v", a, b, got)
			}
		}
	}
}

func TestUnfinishedNamesTheMember(t *testing.T) {
	names := Names{"127.0.0.1:27101": "psmdb80-1"}
	status := ReplicaSetStatus{Members: []MemberStatus{
		{Name: "127.0.0.1:27100", StateName: "PRIMARY", Health: 1},
		{Name: "127.0.0.1:27101", StateName: "STARTUP2", Health: 1},
	}}
	if err := unfinished(status, names); err == nil || err.Error() != "member psmdb80-1 127.0.0.1:27101 is in state STARTUP2" {
		t.Error(err)
	}
	status.Members[1] = MemberStatus{Name: "127.0.0.1:27102", StateName: "(not reachable/healthy)", LastHeartbeat: "connection refused"}
	if err := unfinished(status, names); err == nil || !strings.Contains(err.Error(), "member 127.0.0.1:27102 does not answer: connection refused") {
		t.Error(err)
	}
	status.Members[1] = MemberStatus{StateName: "ARBITER", Health: 1}
	if err := unfinished(status, names); err != nil {
		t.Error(err)
	}
}

func TestExplainable(t *testing.T) {
	filter, update := document(t, `{"flight_id": "a"}`), document(t, `{"$set": {"gate": "B7"}}`)
	_, pipeline, err := bson.MarshalValue(bson.A{bson.D{{Key: "$match", Value: filter}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		command workload.Command
		want    string
	}{
		{workload.Command{Type: workload.Find, Filter: filter, Projection: document(t, `{"gate": {"$numberInt": "1"}}`), Limit: 5, BatchSize: 10},
			`{"find":"flights","filter":{"flight_id":"a"},"projection":{"gate":1},"limit":5,"batchSize":10}`},
		{workload.Command{Type: workload.Find, Filter: filter}, `{"find":"flights","filter":{"flight_id":"a"}}`},
		{workload.Command{Type: workload.UpdateMany, Filter: filter, Update: update},
			`{"update":"flights","updates":[{"q":{"flight_id":"a"},"u":{"$set":{"gate":"B7"}},"multi":true}]}`},
		{workload.Command{Type: workload.UpdateOne, Filter: filter, Update: update},
			`{"update":"flights","updates":[{"q":{"flight_id":"a"},"u":{"$set":{"gate":"B7"}},"multi":false}]}`},
		{workload.Command{Type: workload.DeleteOne, Filter: filter}, `{"delete":"flights","deletes":[{"q":{"flight_id":"a"},"limit":1}]}`},
		{workload.Command{Type: workload.DeleteMany, Filter: filter}, `{"delete":"flights","deletes":[{"q":{"flight_id":"a"},"limit":0}]}`},
		{workload.Command{Type: workload.Aggregate, Pipeline: pipeline}, `{"aggregate":"flights","pipeline":[{"$match":{"flight_id":"a"}}],"cursor":{}}`},
	}
	for _, tt := range tests {
		tt.command.Collection = "flights"
		explained, err := explainable(&tt.command)
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := bson.MarshalExtJSON(explained, false, false)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s %v, want %s", got, err, tt.want)
		}
	}
	if _, err := explainable(&workload.Command{Type: workload.InsertOne, Shape: "insertOne"}); err == nil {
		t.Error("an insert was explained")
	}
}
