package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Exit codes of mongod (exit_code.h of its sources).
const (
	exitClean      = 0
	exitBadOptions = 2
	exitNetError   = 48
	exitUncaught   = 100
)

// Main is the server as a program, with the arguments of mongod that it
// knows: --config FILE (or -f), --version and --help. It ends with ctx, with
// SIGINT or SIGTERM, or by the shutdown command, and returns mongod's exit
// codes.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return MainAs(ctx, Version, args, stdout, stderr)
}

// MainAs is Main for a stand-in: a program that is installed in the place of
// another version and reports it.
func MainAs(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	config, action, err := parseArgs(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "Error parsing command line: %v\ntry 'mongod --help' for more information\n", err)
		return exitBadOptions
	}
	switch action {
	case "version":
		return printVersion(version, stdout)
	case "help":
		_, _ = fmt.Fprint(stdout, "The sandbox embedded server, a small in-memory stand-in for mongod.\n\nUsage: mongod --config FILE\n"+
			"  -f, --config FILE  configuration file (mongod.conf)\n      --version      show version information\n  -h, --help         show this text\n")
		return exitClean
	}
	o, err := parseOptions(config)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%v\ntry 'mongod --help' for more information\n", err)
		return exitBadOptions
	}
	o.Version = version
	o.Argv = append([]string{"mongod"}, args...)
	return serve(ctx, o, stdout, stderr)
}

func parseArgs(args []string) (config, action string, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, hasValue := strings.Cut(arg, "=")
		switch name {
		case "--config", "-f":
			if !hasValue {
				if i++; i == len(args) {
					return "", "", fmt.Errorf("the required argument for option '%s' is missing", arg)
				}
				value = args[i]
			}
			config = value
		case "--version":
			action = "version"
		case "--help", "-h":
			action = "help"
		default:
			return "", "", fmt.Errorf("unrecognised option '%s'", arg)
		}
	}
	return config, action, nil
}

// printVersion prints what tools parse of mongod --version, and says in the
// second line what this really is.
func printVersion(version string, stdout io.Writer) int {
	_, _ = fmt.Fprintf(stdout, "db version v%s\n", version)
	if version == Version {
		_, _ = fmt.Fprintln(stdout, "This is the sandbox embedded server, not a MongoDB build.")
	} else {
		_, _ = fmt.Fprintln(stdout, "This is a stand-in for that version: the sandbox embedded server, not a MongoDB build.")
	}
	info, err := bson.MarshalExtJSON(describeBuild(version), false, false)
	if err == nil {
		var indented []byte
		if indented, err = indent(info); err == nil {
			_, _ = fmt.Fprintf(stdout, "Build Info: %s\n", indented)
		}
	}
	return exitClean
}

func indent(doc []byte) ([]byte, error) {
	return json.MarshalIndent(json.RawMessage(doc), "", "    ")
}

func serve(ctx context.Context, o *settings, stdout, stderr io.Writer) int {
	o.Log = stdout
	if o.logPath != "" {
		file, err := openLog(o.logPath, o.logAppend)
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "cannot open log: %v\n", err)
			return exitBadOptions
		}
		defer func() { _ = file.Close() }()
		o.Log = file
	}
	if o.pidFile != "" {
		if err := os.WriteFile(o.pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil { //nolint:gosec // a pid is no secret
			_, _ = fmt.Fprintf(stderr, "cannot write pid file: %v\n", err)
			return exitBadOptions
		}
		defer func() { _ = os.Remove(o.pidFile) }()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := Start(ctx, o.Config)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%v\n", err)
		if o.logPath != "" {
			_, _ = fmt.Fprintf(o.Log, "{\"level\":\"ERROR\",\"msg\":\"cannot start\",\"cause\":%q}\n", err.Error())
		}
		var address *listenError
		if errors.As(err, &address) {
			return exitNetError
		}
		return exitUncaught
	}
	select {
	case <-ctx.Done():
		s.log.Info("asked to stop", "cause", context.Cause(ctx).Error())
	case <-s.Done():
	}
	s.Close()
	return exitClean
}

// openLog opens the log file; without append, what is there is moved aside
// under a name with the time, as mongod does.
func openLog(path string, add bool) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if !add {
		if _, err := os.Stat(path); err == nil {
			if err := os.Rename(path, path+"."+time.Now().UTC().Format("2006-01-02T15-04-05")); err != nil {
				return nil, err
			}
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}
