package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// File modes: a record is fit to be published.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// marshal returns v as JSON, refusing a document with a password in it.
func marshal(v any, indent string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), guard(buf.Bytes())
}

// writeJSON replaces the file at path with v in one step: after it returned
// the new content is on the disk, before that the old one is.
func writeJSON(path string, v any) error {
	data, err := marshal(v, "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lineFile appends JSON lines, one write each, so that a line is either there
// whole or, after a sudden end, torn at most at the file's end. It is created
// by its first line.
type lineFile struct {
	path string
	file *os.File
}

func (l *lineFile) append(v any) error {
	data, err := marshal(v, "")
	if err != nil {
		return fmt.Errorf("append to %s: %w", filepath.Base(l.path), err)
	}
	_, err = l.Write(data)
	return err
}

// Write implements io.Writer.
func (l *lineFile) Write(data []byte) (int, error) {
	if l.file == nil {
		f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, fileMode)
		if err != nil {
			return 0, fmt.Errorf("append to record: %w", err)
		}
		l.file = f
	}
	n, err := l.file.Write(data)
	if err != nil {
		return n, fmt.Errorf("append to record: %w", err)
	}
	return n, nil
}

// close makes what was appended durable.
func (l *lineFile) close() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	return err
}
