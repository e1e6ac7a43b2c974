package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Engine holds databases. Its methods may be called concurrently.
type Engine struct {
	commands map[string]command

	mu          sync.RWMutex
	collections map[string]*collection // by "database.collection"

	// Commits of transactions exclude the snapshots of others.
	commits sync.RWMutex

	cursors cursors
}

// command is how one command runs.
type command struct {
	run       func(context.Context, *Request) (bson.Raw, error)
	inTxn     bool // may run inside a transaction
	sequences string
}

// New returns an engine without data.
func New() *Engine {
	e := &Engine{
		collections: map[string]*collection{},
		cursors:     cursors{open: map[int64]*cursor{}, now: time.Now},
	}
	e.commands = map[string]command{
		"aggregate":       {run: e.aggregate, inTxn: true},
		"collStats":       {run: e.collStats},
		"count":           {run: e.count},
		"create":          {run: e.create},
		"createIndexes":   {run: e.createIndexes},
		"delete":          {run: e.delete, inTxn: true, sequences: "deletes"},
		"distinct":        {run: e.distinct, inTxn: true},
		"drop":            {run: e.drop},
		"dropDatabase":    {run: e.dropDatabase},
		"dropIndexes":     {run: e.dropIndexes},
		"explain":         {run: e.explain},
		"find":            {run: e.find, inTxn: true},
		"findAndModify":   {run: e.findAndModify, inTxn: true},
		"getMore":         {run: e.getMore, inTxn: true},
		"insert":          {run: e.insert, inTxn: true, sequences: "documents"},
		"killCursors":     {run: e.killCursors, inTxn: true},
		"listCollections": {run: e.listCollections},
		"listDatabases":   {run: e.listDatabases},
		"listIndexes":     {run: e.listIndexes},
		"update":          {run: e.update, inTxn: true, sequences: "updates"},
	}
	e.commands["findandmodify"] = e.commands["findAndModify"]
	return e
}

// Commands returns the names of the commands that Run serves, sorted.
func (e *Engine) Commands() []string {
	names := make([]string, 0, len(e.commands))
	for name := range e.commands {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run executes one command and returns the whole reply, ok: 1 included. A
// command that failed is an *Error. Neither the reply nor what is stored
// shares memory with the request, which may be reused when Run has returned.
// A deadline of ctx is answered as MaxTimeMSExpired, its cancellation as
// Interrupted.
func (e *Engine) Run(ctx context.Context, req *Request) (bson.Raw, error) {
	reply, err := e.run(ctx, req)
	if err != nil {
		return nil, asError(err)
	}
	return reply, nil
}

func (e *Engine) run(ctx context.Context, req *Request) (bson.Raw, error) {
	if err := validate(req.Body); err != nil {
		return nil, err
	}
	cmd, ok := e.commands[req.Name]
	if !ok {
		return nil, failure(codeCommandNotFound, "no such command: '%s'", req.Name)
	}
	it := fieldsOf(req.Body)
	var first element
	if !it.next(&first) || string(first.key) != req.Name {
		return nil, failure(codeFailedToParse, "the command document does not begin with '%s'", req.Name)
	}
	for id, docs := range req.Sequences {
		if id != cmd.sequences {
			return nil, unknownField(req.Name, id)
		}
		for _, doc := range docs {
			if err := validate(doc); err != nil {
				return nil, err
			}
		}
	}
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if req.Txn == nil {
		return cmd.run(ctx, req)
	}
	if !cmd.inTxn {
		return nil, failure(codeNotSupportedInTxn, "Cannot run '%s' in a multi-document transaction.", req.Name)
	}
	return req.Txn.runIn(func() (bson.Raw, error) { return cmd.run(ctx, req) })
}

// collection returns a collection, or nil.
func (e *Engine) collection(ns string) *collection {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.collections[ns]
}

// ensure returns a collection, which it creates if need be.
func (e *Engine) ensure(ns string) (c *collection, created bool) {
	if c := e.collection(ns); c != nil {
		return c, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.collections[ns]; c != nil {
		return c, false
	}
	c = newCollection(ns)
	e.collections[ns] = c
	return c, true
}

// all returns the collections, sorted by namespace.
func (e *Engine) all() []*collection {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]*collection, 0, len(e.collections))
	for _, c := range e.collections {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *collection) int { return cmp.Compare(a.ns, b.ns) })
	return out
}

// inDatabase returns a database's collections, sorted by name.
func (e *Engine) inDatabase(database string) []*collection {
	prefix := database + "."
	return slices.DeleteFunc(e.all(), func(c *collection) bool { return !strings.HasPrefix(c.ns, prefix) })
}

// read calls use with what the request sees of a collection: nil when it does
// not exist. snapshot returns a copy that may be kept.
func (e *Engine) read(req *Request, ns string, use func(s *store, snapshot func() *store) error) error {
	if req.Txn != nil {
		tc := req.Txn.collections[ns]
		if tc == nil {
			return use(nil, nil)
		}
		return use(tc.s, tc.s.copy)
	}
	c := e.collection(ns)
	if c == nil {
		return use(nil, nil)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.dropped {
		return use(nil, nil)
	}
	return use(c.data, c.snapshot)
}

// write calls change with a writer for a collection, which is created if need
// be when create is set; otherwise change gets nil when there is none. change
// is called again, after a wait, when it meets a record that a transaction
// holds: it must go on from where it was.
func (e *Engine) write(ctx context.Context, req *Request, ns string, create bool, change func(w *writer) error) error {
	for {
		err := e.writeOnce(req, ns, create, change)
		var wait blocked
		if !errors.As(err, &wait) {
			return err
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
}

func (e *Engine) writeOnce(req *Request, ns string, create bool, change func(w *writer) error) error {
	for {
		c := e.collection(ns)
		if c == nil && create {
			c, _ = e.ensure(ns)
		}
		if c == nil {
			return change(nil)
		}
		c.mu.Lock()
		if c.dropped {
			c.mu.Unlock()
			continue
		}
		defer c.mu.Unlock()
		w := &writer{c: c, s: c.data}
		if req.Txn != nil {
			tc, err := req.Txn.forWriting(c)
			if err != nil {
				return err
			}
			w.s, w.txn, w.tc = tc.s, req.Txn, tc
		}
		return change(w)
	}
}
