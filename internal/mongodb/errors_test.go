package mongodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

func TestErrorName(t *testing.T) {
	raw, err := bson.Marshal(bson.D{{Key: "code", Value: int32(112)}, {Key: "codeName", Value: "WriteConflict"}})
	if err != nil {
		t.Fatal(err)
	}
	concern := func(name string, code int) *mongo.WriteConcernError {
		return &mongo.WriteConcernError{Name: name, Code: code, Message: "waiting"}
	}
	for _, test := range []struct {
		want string
		err  error
	}{
		{"", nil},
		{"Canceled", context.Canceled},
		{"Canceled", mongo.CommandError{Labels: []string{"NetworkError"}, Wrapped: context.Canceled}},
		{"Timeout", context.DeadlineExceeded},
		{"Timeout", mongo.CommandError{Labels: []string{"NetworkTimeoutError"}}},
		{"MaxTimeMSExpired", mongo.CommandError{Code: 50, Name: "MaxTimeMSExpired"}},
		{"Network", mongo.CommandError{Labels: []string{"NetworkError"}, Wrapped: io.EOF}},
		{"Network", &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
		{"Network", io.ErrUnexpectedEOF},
		{"Network", poolCleared{}},
		{"NotWritablePrimary", mongo.CommandError{Code: 10107, Name: "NotWritablePrimary"}},
		{"code 8888", mongo.CommandError{Code: 8888, Message: "no name"}},
		{"WriteConflict", mongo.CommandError{Code: 112, Raw: raw}},
		{"DuplicateKey", mongo.CommandError{Code: 11000, Name: "DuplicateKey"}},
		{"DuplicateKey", mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}},
		{"DuplicateKey", mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 11000}}}}},
		{"code 121", mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}}}},
		{"code 121", mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 121}}}}},
		{"WriteConcern(WriteConcernTimeout)", mongo.WriteException{WriteConcernError: concern("WriteConcernTimeout", 64)}},
		{"WriteConcern(code 100)", mongo.BulkWriteException{WriteConcernError: concern("", 100)}},
		{"code 121", mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}}, WriteConcernError: concern("", 100)}},
		{"Other", errors.New("something else")},
		{"Other", mongo.WriteException{}},
	} {
		if got := ErrorName(test.err); got != test.want {
			t.Errorf("ErrorName(%#v) = %q, want %q", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := ErrorName(fmt.Errorf("find on a.b: %w", test.err)); got != test.want {
			t.Errorf("wrapped: ErrorName(%#v) = %q, want %q", test.err, got, test.want)
		}
	}
}

func TestIsTimeout(t *testing.T) {
	for _, test := range []struct {
		want bool
		err  error
	}{
		{false, nil},
		{true, context.DeadlineExceeded},
		{true, mongo.CommandError{Labels: []string{"NetworkTimeoutError"}}},
		{true, mongo.CommandError{Code: 50, Name: "MaxTimeMSExpired"}},
		{true, mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 50}}}},
		{true, mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 50}}}}},
		{false, mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Name: "WriteConcernTimeout", Code: 64}}},
		{false, mongo.CommandError{Code: 112, Name: "WriteConflict"}},
		{false, context.Canceled},
		{false, topology.ServerSelectionError{Wrapped: context.DeadlineExceeded}},
		{false, io.ErrUnexpectedEOF},
	} {
		if got := IsTimeout(test.err); got != test.want {
			t.Errorf("IsTimeout(%#v) = %v", test.err, got)
		}
		if test.err != nil && IsTimeout(fmt.Errorf("find on a.b: %w", test.err)) != test.want {
			t.Errorf("wrapped: IsTimeout(%#v) = %v", test.err, !test.want)
		}
	}
}

// The driver's own errors for targets that cannot be reached.
func TestErrorNamesOfUnreachableTargets(t *testing.T) {
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := closing.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	defer func() { _ = closing.Close() }()
	find := &workload.Command{Type: workload.Find, Database: "a", Collection: "b", Filter: bson.Raw{5, 0, 0, 0, 0}}
	uri := "mongodb://" + closing.Addr().String() + "/?serverSelectionTimeoutMS="
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		name, want string
		ctx        context.Context
		options    Options
	}{
		{"no server in time", "ServerSelection", context.Background(), Options{URI: uri + "50"}},
		{"no server within the operation's time", "ServerSelection", context.Background(), Options{URI: uri + "60000", OpTimeout: 50 * time.Millisecond}},
		{"given up", "Canceled", canceled, Options{URI: uri + "60000"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, err := Connect(context.Background(), test.options)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close(context.Background()) }()
			if _, err := client.Execute(test.ctx, find); ErrorName(err) != test.want {
				t.Errorf("error %v is %q, want %q", err, ErrorName(err), test.want)
			}
		})
	}
}

// poolCleared is what a command meets whose pool was cleared because of
// another one; the driver keeps its own type of it to itself.
type poolCleared struct{}

func (poolCleared) Error() string   { return "connection pool was cleared" }
func (poolCleared) Retryable() bool { return true }
