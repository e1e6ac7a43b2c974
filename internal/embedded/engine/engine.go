package engine

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Engine holds databases. Its methods may be called concurrently.
type Engine struct{}

// New returns an engine without data.
func New() *Engine { return &Engine{} }

// Run executes one command and returns the whole reply, ok: 1 included. A
// command that failed is an *Error. The reply does not share memory with the
// request.
func (e *Engine) Run(ctx context.Context, req *Request) (bson.Raw, error) {
	return nil, &Error{Code: 59, Name: "CommandNotFound", Message: "no such command: '" + req.Name + "'"}
}

// Commands returns the names of the commands that Run serves, sorted.
func (e *Engine) Commands() []string { return nil }
