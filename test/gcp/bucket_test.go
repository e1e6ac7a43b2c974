//go:build e2e

package gcp

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/gcp"
)

// bucket stands in for Cloud Storage with one bucket, as far as a Terraform
// backend needs it: objects are listed, read, written whole and deleted, under
// conditions on their generation.
type bucket struct {
	t    *testing.T
	name string

	mu         sync.Mutex
	objects    map[string]object
	generation int64
}

type object struct {
	data       []byte
	generation int64
}

// newBucket returns a bucket and the address of its API.
func newBucket(t *testing.T, name string) (b *bucket, endpoint string) {
	t.Helper()
	b = &bucket{t: t, name: name, objects: map[string]object{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /storage/v1/b/{bucket}/o", b.list)
	mux.HandleFunc("POST /upload/storage/v1/b/{bucket}/o", b.upload)
	mux.HandleFunc("GET /storage/v1/b/{bucket}/o/{object}", b.get)
	mux.HandleFunc("DELETE /storage/v1/b/{bucket}/o/{object}", b.delete)
	mux.HandleFunc("GET /{bucket}/{object...}", b.read)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the stand-in for the bucket does not know %s %s", r.Method, r.URL)
		http.Error(w, "unknown", http.StatusNotImplemented)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("%s %s without credentials", r.Method, r.URL)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return b, server.URL + "/storage/v1/"
}

// put is what somebody else writes.
func (b *bucket) put(name, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write(name, []byte(text))
}

// text is an object's, and whether it exists.
func (b *bucket) text(name string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.objects[name]
	return string(o.data), ok
}

func (b *bucket) write(name string, data []byte) map[string]any {
	b.generation++
	b.objects[name] = object{data, b.generation}
	return b.resource(name)
}

// resource is what the API says of an object; 64-bit numbers are texts in it.
func (b *bucket) resource(name string) map[string]any {
	o := b.objects[name]
	sum := md5.Sum(o.data)
	return map[string]any{
		"kind": "storage#object", "name": name, "bucket": b.name, "generation": strconv.FormatInt(o.generation, 10),
		"metageneration": "1", "size": strconv.Itoa(len(o.data)), "md5Hash": base64.StdEncoding.EncodeToString(sum[:]),
	}
}

// holds answers unless the condition on the generation holds.
func (b *bucket) holds(w http.ResponseWriter, r *http.Request, name string) bool {
	want := r.URL.Query().Get("ifGenerationMatch")
	if want == "" || want == strconv.FormatInt(b.objects[name].generation, 10) {
		return true
	}
	b.refuse(w, http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold.")
	return false
}

func (b *bucket) refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": message}})
}

func (b *bucket) answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		b.t.Error(err)
	}
}

func (b *bucket) list(w http.ResponseWriter, r *http.Request) {
	items := []any{}
	for name := range b.objects {
		if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
			items = append(items, b.resource(name))
		}
	}
	b.answer(w, map[string]any{"kind": "storage#objects", "items": items})
}

func (b *bucket) upload(w http.ResponseWriter, r *http.Request) {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind := r.URL.Query().Get("uploadType"); err != nil || kind != "multipart" {
		b.t.Errorf("an upload of type %q (%v)", kind, err)
		b.refuse(w, http.StatusNotImplemented, "unknown")
		return
	}
	parts := multipart.NewReader(r.Body, parameters["boundary"])
	var about struct {
		Name string `json:"name"`
	}
	head, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(head).Decode(&about)
	}
	var data []byte
	if err == nil {
		var body *multipart.Part
		if body, err = parts.NextPart(); err == nil {
			data, err = io.ReadAll(body)
		}
	}
	if err != nil {
		b.t.Errorf("an upload: %v", err)
		b.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if b.holds(w, r, about.Name) {
		b.answer(w, b.write(about.Name, data))
	}
}

func (b *bucket) get(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("object")
	if _, ok := b.objects[name]; !ok {
		b.refuse(w, http.StatusNotFound, "No such object: "+name)
		return
	}
	b.answer(w, b.resource(name))
}

func (b *bucket) read(w http.ResponseWriter, r *http.Request) {
	o, ok := b.objects[r.PathValue("object")]
	if !ok {
		http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Goog-Generation", strconv.FormatInt(o.generation, 10))
	w.Header().Set("X-Goog-Metageneration", "1")
	w.Header().Set("X-Goog-Stored-Content-Length", strconv.Itoa(len(o.data)))
	_, _ = w.Write(o.data)
}

func (b *bucket) delete(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("object")
	if b.holds(w, r, name) {
		delete(b.objects, name)
		w.WriteHeader(http.StatusNoContent)
	}
}

// With state_bucket the state is in the bucket and nowhere else, and whoever
// holds its lock is respected.
func TestStateInBucket(t *testing.T) {
	t.Parallel()
	b, endpoint := newBucket(t, "states")
	extra := filepath.Join(t.TempDir(), "bucket.tfvars")
	must(t, os.WriteFile(extra, []byte("state_bucket = \"states\"\n"), 0o600))
	s := newStage(t, "small", "testdata/small.tfvars", extra)
	s.options.Environ = append(s.options.Environ, "GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT="+endpoint)

	s.mustUp()
	const state, lock = "sandbox/" + projectID + "/small/default.tfstate", "sandbox/" + projectID + "/small/default.tflock"
	if text, ok := b.text(state); !ok || !strings.Contains(text, "small-odd-name-v2-1") {
		t.Errorf("the bucket has %q", text)
	}
	if _, err := os.Stat(filepath.Join(s.options.Dir, "terraform", "terraform.tfstate")); err == nil {
		t.Error("the state is here, too")
	}
	s.planIsEmpty()

	b.put(lock, fmt.Sprintf(`{"ID":"1","Operation":"OperationTypeApply","Who":"somebody@else","Path":"gs://states/%s"}`, lock))
	p := s.platform()
	preflight, err := p.Preflight(t.Context(), s.spec)
	must(t, err)
	if _, err := p.Plan(t.Context(), s.spec, preflight); err == nil || !strings.Contains(err.Error(), "somebody@else") {
		t.Errorf("with the lock held: %v", err)
	}
	// One that a run on this machine left is told from it, and released with
	// the command that the error names.
	host, err := os.Hostname()
	must(t, err)
	b.put(lock, fmt.Sprintf(`{"ID":"1","Operation":"OperationTypeApply","Who":"me@%s","Path":"gs://states/%s"}`, host, lock))
	_, err = s.platform().Destroy(t.Context())
	failure := &gcp.TerraformError{}
	if !errors.As(err, &failure) || failure.Lock == nil || !failure.Lock.Stale {
		t.Fatalf("with a lock of nobody: %v", err)
	}
	_, command, _ := strings.Cut(failure.Fix, "`")
	command, _, _ = strings.Cut(command, "`")
	shell := exec.CommandContext(t.Context(), "sh", "-c", command)
	shell.Env = s.options.Environ
	if output, err := shell.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, output)
	}
	if _, held := b.text(lock); held {
		t.Errorf("%s does not release the lock", command)
	}

	removed, left := s.down()
	if removed.Total() != 10 || len(left) != 0 {
		t.Errorf("removed %v, left %v", removed, left)
	}
	if text, _ := b.text(state); !strings.Contains(text, `"resources":[]`) {
		t.Errorf("the bucket has %q", text)
	}
	if _, held := b.text(lock); held {
		t.Error("the lock is still held")
	}
}
