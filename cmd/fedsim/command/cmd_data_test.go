package command

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/dataset/download"
	"github.com/fedsim/fedsim/internal/verb"
)

// mirror serves a tiny set as ml-latest-small and as ml-1m.
func mirror(t *testing.T) (address string, archive []byte) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("ml/ratings.csv")
	if err == nil {
		_, err = f.Write([]byte("userId,movieId,rating\n1,2,3\n2,2,4\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ml-latest-small.zip.md5":
			fmt.Fprintf(w, "%x  ml-latest-small.zip\n", md5.Sum(b.Bytes()))
		case "/ml-latest-small.zip", "/ml-1m.zip":
			w.Write(b.Bytes()) //nolint:errcheck // a test server
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, b.Bytes()
}

// call runs the command in this process with a cache of its own.
func call(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, verb.Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// TestDataGet follows a set from its mirror through get, list, info and verify.
func TestDataGet(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("HOME", home)
	address, archive := mirror(t)

	code, out, errs := call(t, "data", "get", "ml-latest-small", "--mirror", address)
	if code != 0 || !strings.Contains(out, "checked against the digest published beside it, not one built in") ||
		!strings.Contains(out, fmt.Sprintf("%x", md5.Sum(archive))) || !strings.Contains(out, "downloaded from "+address+"/ml-latest-small.zip") {
		t.Errorf("get: exit %d, %s%s", code, out, errs)
	}
	if !strings.HasSuffix(errs, "downloading ml-latest-small 100%, 0.0 MB of 0.0 MB\n") {
		t.Errorf("get: progress is %q, want it to end at 100%%", errs)
	}
	code, out, errs = call(t, "data", "get", "ml-latest-small", "--mirror", address, "--format", "json")
	var again download.Result
	if err := json.Unmarshal([]byte(out), &again); err != nil || code != 0 || again.Downloaded != 0 || again.Size != int64(len(archive)) || errs != "" {
		t.Errorf("get again: exit %d, %s%s, %v, want nothing downloaded", code, out, errs, err)
	}

	code, out, _ = call(t, "data", "list", "--format", "json")
	var list []listed
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		t.Errorf("list: exit %d, %v", code, err)
	}
	for _, e := range list {
		if cached := e.Name == "ml-latest-small"; cached != (e.Cached != "") || cached && (e.Cached != again.Path || !strings.HasPrefix(e.Cached, home)) {
			t.Errorf("list: %s is cached at %q", e.Name, e.Cached)
		}
	}
	if code, out, errs = call(t, "data", "info", "ml-latest-small", "--format", "json"); code != 0 || !strings.Contains(out, `"ratings": 2`) {
		t.Errorf("info: exit %d, %s%s", code, out, errs)
	}
	if code, out, errs = call(t, "data", "verify", "ml-latest-small"); code != 0 || !strings.Contains(out, "recorded when it was downloaded") ||
		!strings.Contains(out, "another edition than that whose counts are known") {
		t.Errorf("verify: exit %d, %s%s", code, out, errs)
	}

	code, out, errs = call(t, "data", "get", "ml-1m", "--mirror", address)
	if code != 1 || out != "" || !strings.Contains(errs, "want c4d9eecfca2ab87c1945afe126590906; they were removed") {
		t.Errorf("get of something else: exit %d, %s%s", code, out, errs)
	}
	code, _, errs = call(t, "data", "get", "ml-20m", "--mirror", address)
	if code != 1 || !strings.Contains(errs, address+"/ml-20m.zip: the server answered 404 Not Found") {
		t.Errorf("get of what is not there: exit %d, %s", code, errs)
	}
	if left, err := filepath.Glob(filepath.Join(home, "*", "*", "*")); err != nil || len(left) != 2 {
		t.Errorf("the cache holds %q, %v, want the archive and its receipt", left, err)
	}
}

// TestDownloadingLines: off a terminal there is a line for every tenth, and no more.
func TestDownloadingLines(t *testing.T) {
	var b bytes.Buffer
	tell := cli.NewBar(&b).Fetching("downloading x", megabytes)
	tell(10, 0) // the server does not say how much there is
	for done := range int64(1001) {
		tell(done*1e6/1000, 1e6)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 11 || lines[3] != "downloading x 30%, 0.3 MB of 1.0 MB" || lines[10] != "downloading x 100%, 1.0 MB of 1.0 MB" {
		t.Errorf("%d lines: %q, want 11 from 0%% to 100%%", len(lines), lines)
	}
}

// TestRatersOfAFaultyFile reads a file as fedsim run reads it: rows that cannot be used are left out, repeated ones are settled. Counted by hand:
// of four usable ratings one is repeated.
func TestRatersOfAFaultyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ratings.csv")
	if err := os.WriteFile(file, []byte("user;item;rating\na;x;4\na;x;5\na;y;none\na;z;-1\nb;x;3\nb;z;2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	args := []string{"data", "raters", file, "--public-users", "1", "--rating-min", "1", "--rating-max", "5", "--bad-rows", "skip", "--duplicates", "last", "--unrated=-1",
		"--separator", "semicolon", "--out", filepath.Join(dir, "raters.csv")}
	if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if text := errs.String(); !strings.Contains(text, "1 row cannot be used") || !strings.Contains(text, "means not rated") {
		t.Errorf("it says %q", text)
	}
}
