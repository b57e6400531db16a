package internal_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/download"
	"github.com/fedsim/fedsim/internal/dataset/published"
)

// site serves an archive and its .md5, and fails as it is told to.
type site struct {
	archive []byte
	md5     string // of the .md5 file; "" means the MD5 of the archive, as GroupLens writes it
	deaf    bool   // ignores Range
	cut     int    // bytes after which every answer breaks off, 0 for never
	hang    bool   // what is cut does not break off, but comes no further

	requests atomic.Int32 // for the archive
	lastAsk  string       // Range of the last of them
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".md5") {
		text := s.md5
		if text == "" {
			text = fmt.Sprintf("MD5 (%s) = %x\n", filepath.Base(r.URL.Path), md5.Sum(s.archive))
		}
		fmt.Fprint(w, text)
		return
	}
	s.requests.Add(1)
	s.lastAsk = r.Header.Get("Range")
	if s.deaf {
		r.Header.Del("Range")
	}
	if s.cut > 0 {
		w = &cutter{ResponseWriter: w, left: s.cut, hang: s.hang, ctx: r.Context()}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.archive))
}

// cutter breaks the connection off after some bytes, or lets it hang.
type cutter struct {
	http.ResponseWriter
	left int
	hang bool
	ctx  context.Context
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])      //nolint:errcheck // a test server
		c.ResponseWriter.(http.Flusher).Flush() // else nothing arrives
		if c.hang {
			<-c.ctx.Done()
		}
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// testArchive is a small set in an archive of about a hundred kilobytes.
func testArchive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	noise := make([]byte, 100<<10)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for name, text := range map[string]string{"ml/ratings.csv": "userId,movieId,rating\n1,2,3\n", "ml/noise": string(noise)} {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// start serves a site and returns parameters to download from it into a fresh cache.
func start(t *testing.T, s *site) download.Params {
	t.Helper()
	if s.archive == nil {
		s.archive = testArchive(t)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return download.Params{Client: server.Client(), Mirror: server.URL + "/data/", Cache: published.Cache(filepath.Join(t.TempDir(), "a", "cache"))}
}

func path(p download.Params, suffix string) string {
	return filepath.Join(string(p.Cache), small+".zip"+suffix)
}

// small is the set whose digest is not built in, so that a test can choose its content.
const small = "ml-latest-small"

// holds reports when the cache does not hold exactly these files, by their suffix.
func holds(t *testing.T, p download.Params, suffixes ...string) {
	t.Helper()
	var got, want []string
	entries, err := os.ReadDir(string(p.Cache))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	for _, s := range suffixes {
		want = append(want, small+".zip"+s)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the cache holds %q, want %q", got, want)
	}
}

func TestGet(t *testing.T) {
	s := &site{}
	p := start(t, s)
	var last, total int64
	p.Progress = func(d, of int64) {
		if d < last {
			t.Errorf("progress falls from %d to %d", last, d)
		}
		last, total = d, of
	}
	got, err := download.Get(context.Background(), small, p)
	if err != nil {
		t.Fatal(err)
	}
	sum, size := md5.Sum(s.archive), int64(len(s.archive))
	if got.MD5 != hex.EncodeToString(sum[:]) || got.Size != size || got.Downloaded != size || got.Path != path(p, "") ||
		got.Checked != "checked against the digest published beside it, not one built in" || got.Name != small || got.Terms == "" {
		t.Errorf("unexpected result %+v", got)
	}
	if last != size || total != size {
		t.Errorf("progress ends at %d of %d, want %d", last, total, size)
	}
	holds(t, p, "", ".json")
	text, err := os.ReadFile(path(p, ""))
	if err != nil || !bytes.Equal(text, s.archive) {
		t.Errorf("the archive is not what was served: %d bytes, %v", len(text), err)
	}
	set, err := read.Open(context.Background(), small, read.Options{Cache: p.Cache})
	if err != nil || set.Len() != 1 || set.Name != small {
		t.Errorf("opening it gives %+v, %v", set, err)
	}

	p.Progress = nil
	// Once there and right, nothing is asked for; once wrong, it is replaced.
	again, err := download.Get(context.Background(), small, p)
	if got.Downloaded = 0; err != nil || again != got || s.requests.Load() != 1 {
		t.Errorf("the second time: %+v, %v, %d requests, want %+v and 1", again, err, s.requests.Load(), got)
	}
	for _, spoilt := range []string{"", ".json"} {
		if err = os.WriteFile(path(p, spoilt), []byte("spoilt"), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err = download.Get(context.Background(), small, p); err != nil || again.Downloaded != size {
			t.Errorf("over a spoilt %s: %d bytes came, %v, want %d", spoilt, again.Downloaded, err, size)
		}
	}
	holds(t, p, "", ".json")
}

// TestGetResumes: what came before a cut is not asked for again, within a call and from call to call. If the server has
// another file by then, the digest tells, and the next call begins anew.
func TestGetResumes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site) // between the first call and the second
		other  bool        // the file is another one
	}{
		"the same file":  {func(*site) {}, false},
		"another file":   {func(s *site) { s.archive = s.archive[1:] }, true},
		"deaf to ranges": {func(s *site) { s.deaf = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{cut: 50} // five attempts
			p := start(t, s)
			_, err := download.Get(context.Background(), small, p)
			var partial *download.PartialError
			if !errors.As(err, &partial) || !errors.Is(err, io.ErrUnexpectedEOF) || partial.Want != int64(len(s.archive)) {
				t.Fatalf("error is %v, want a *PartialError of %d bytes", err, len(s.archive))
			}
			if s.requests.Load() != 5 || partial.Have != 250 {
				t.Errorf("%d requests brought %d bytes, want 5 and 250", s.requests.Load(), partial.Have)
			}
			want := fmt.Sprintf("the download broke off: unexpected EOF; 250 of %d bytes are kept in %s, and the same command continues from there", len(s.archive), path(p, ".part"))
			if err.Error() != want {
				t.Errorf("\n got %v\nwant %s", err, want)
			}
			holds(t, p, ".part")

			s.cut = 0
			c.change(s)
			got, err := download.Get(context.Background(), small, p)
			if s.lastAsk != "bytes=250-" || errors.Is(err, download.ErrDigest) != c.other {
				t.Fatalf("asked for %q, %v", s.lastAsk, err)
			}
			if c.other {
				holds(t, p)
				got, err = download.Get(context.Background(), small, p)
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(got.Path); err != nil || !bytes.Equal(text, s.archive) {
				t.Errorf("the archive is not what was served: %d bytes, %v", len(text), err)
			}
			holds(t, p, "", ".json")
		})
	}
}

// TestGetResumesWithin: a connection that breaks is resumed without another call.
func TestGetResumesWithin(t *testing.T) {
	s := &site{cut: 40 << 10}
	p := start(t, s)
	got, err := download.Get(context.Background(), small, p)
	if err != nil || s.requests.Load() != 3 || got.Downloaded != int64(len(s.archive)) {
		t.Errorf("%d requests brought %d bytes, %v, want 3 and %d", s.requests.Load(), got.Downloaded, err, len(s.archive))
	}
}

// TestGetWholePart: a part that was whole when the download was interrupted is not
// asked for again, and one longer than the file is thrown away.
func TestGetWholePart(t *testing.T) {
	for name, extra := range map[string]string{"whole": "", "longer": "x"} {
		s := &site{}
		p := start(t, s)
		if err := errors.Join(os.MkdirAll(string(p.Cache), 0o700), os.WriteFile(path(p, ".part"), append(bytes.Clone(s.archive), extra...), 0o600)); err != nil {
			t.Fatal(err)
		}
		got, err := download.Get(context.Background(), small, p)
		if want := int64(len(extra) * len(s.archive)); err != nil || got.Downloaded != want {
			t.Errorf("%s: %d bytes came, %v, want %d", name, got.Downloaded, err, want)
		}
		holds(t, p, "", ".json")
	}
}

// TestGetWrongDigest: what is wrong is removed, what was there stays, and the error
// says what was expected and what came.
func TestGetWrongDigest(t *testing.T) {
	s := &site{}
	p := start(t, s)
	_, err := download.Get(context.Background(), "ml-1m", p)
	want := fmt.Sprintf("%sml-1m.zip: wrong digest: md5 of the %d bytes that came is %x, want c4d9eecfca2ab87c1945afe126590906; they were removed, and nothing else was",
		p.Mirror, len(s.archive), md5.Sum(s.archive))
	if !errors.Is(err, download.ErrDigest) || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	holds(t, p)

	if _, err = download.Get(context.Background(), small, p); err != nil {
		t.Fatal(err)
	}
	if err = os.Remove(path(p, ".json")); err != nil { // so that it is got again
		t.Fatal(err)
	}
	good := s.archive
	s.md5, s.archive = fmt.Sprintf("%X  %s.zip\n", md5.Sum([]byte("other")), small), []byte("something")
	if _, err = download.Get(context.Background(), small, p); !errors.Is(err, download.ErrDigest) || !strings.Contains(err.Error(), fmt.Sprintf("want %x", md5.Sum([]byte("other")))) {
		t.Errorf("error is %v, want ErrDigest", err)
	}
	if text, err := os.ReadFile(path(p, "")); err != nil || !bytes.Equal(text, good) {
		t.Errorf("the archive that was there is gone: %d bytes, %v", len(text), err)
	}
	holds(t, p, "")
}

// TestGetBadDigestFile: a .md5 that is none stops the download before it begins.
func TestGetBadDigestFile(t *testing.T) {
	for text, want := range map[string]string{
		"<html>no such file</html>":                               "holds 0 MD5 digests, want one",
		strings.Repeat("0123456789abcdef0123456789abcdef x\n", 2): "holds 2 MD5 digests, want one",
	} {
		s := &site{md5: text}
		p := start(t, s)
		if _, err := download.Get(context.Background(), small, p); !errors.Is(err, download.ErrDigest) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: error is %v, want %s", text, err, want)
		}
		if s.requests.Load() != 0 {
			t.Error("the archive was asked for")
		}
	}
}

func TestGetRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, name := range []string{small, "ml-1m"} {
		p := download.Params{Mirror: server.URL, Cache: published.Cache(t.TempDir())}
		_, err := download.Get(context.Background(), name, p)
		if err == nil || !strings.HasSuffix(err.Error(), ": the server answered 404 Not Found") || !strings.HasPrefix(err.Error(), server.URL+"/"+name+".zip") {
			t.Errorf("%s: error is %v, want the address and 404 Not Found", name, err)
		}
		holds(t, p)
	}
	server.Close()
	if _, err := download.Get(context.Background(), "ml-1m", download.Params{Mirror: server.URL, Cache: published.Cache(t.TempDir())}); err == nil ||
		!strings.HasPrefix(err.Error(), server.URL+"/ml-1m.zip: ") {
		t.Errorf("no server: error is %v, want the address", err)
	}
}

func TestGetUnknown(t *testing.T) {
	for name, want := range map[string]string{
		"ml-2m":     `"ml-2m" is not a set that can be downloaded; want one of ml-100k, ml-1m, ml-10m, ml-20m, ml-25m, ml-latest-small`,
		"libimseti": "libimseti is not a set that can be downloaded: fedsim knows no address of it that will last; look for it at http",
	} {
		if _, err := download.Get(context.Background(), name, download.Params{}); !errors.Is(err, download.ErrUnknown) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

// TestGetInterrupted: the part stays, and the next call resumes from it.
func TestGetInterrupted(t *testing.T) {
	s := &site{cut: 1000, hang: true}
	p := start(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	p.Progress = func(_, _ int64) { cancel() }
	_, err := download.Get(ctx, small, p)
	var partial *download.PartialError
	if !errors.As(err, &partial) || !errors.Is(err, context.Canceled) || partial.Have == 0 || partial.Have > 1000 {
		t.Fatalf("error is %v, want a *PartialError that wraps context.Canceled", err)
	}
	holds(t, p, ".part")
	p.Progress, s.cut = nil, 0
	got, err := download.Get(context.Background(), small, p)
	if err != nil || got.Downloaded != int64(len(s.archive))-partial.Have || s.lastAsk != fmt.Sprintf("bytes=%d-", partial.Have) {
		t.Errorf("asked for %q, %d bytes came, %v, want the rest after %d", s.lastAsk, got.Downloaded, err, partial.Have)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err = download.Get(ended, "ml-1m", p); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
}

// TestGetDiskErrors: what cannot be written is an error that names the place.
func TestGetDiskErrors(t *testing.T) {
	p := start(t, &site{})
	p.Cache = published.Cache(filepath.Join(t.TempDir(), "file", "cache"))
	if err := os.WriteFile(filepath.Dir(string(p.Cache)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var at *os.PathError
	if _, err := download.Get(context.Background(), small, p); !errors.As(err, &at) {
		t.Errorf("the cache is below a file: error is %v, want an *os.PathError", err)
	}
	p = start(t, &site{})
	if err := os.MkdirAll(path(p, ".part"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := download.Get(context.Background(), small, p); !errors.As(err, &at) || at.Path != path(p, ".part") {
		t.Errorf("the part is a folder: error is %v, want an *os.PathError", err)
	}
	p = start(t, &site{})
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	if err := errors.Join(os.MkdirAll(string(p.Cache), 0o700), os.Symlink("/dev/full", path(p, ".part"))); err != nil {
		t.Fatal(err)
	}
	if _, err := download.Get(context.Background(), small, p); !errors.As(err, &at) || at.Op != "write" {
		t.Errorf("the disk is full: error is %v, want an *os.PathError of a write", err)
	}
}

// answer is a server without a network, for virtual time.
type answer func(*http.Request) (*http.Response, error)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// silent is a body of which nothing comes after its first bytes until the request ends.
type silent struct {
	first io.Reader
	ctx   context.Context
}

func (s *silent) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s *silent) Close() error { return nil }

// TestGetStalls: after a minute without a byte, and not before, the download ends and
// keeps what came.
func TestGetStalls(t *testing.T) {
	dir := t.TempDir()
	for name, respond := range map[string]answer{
		"no answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"no body": func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, ContentLength: 1000,
				Body: &silent{first: strings.NewReader("some"), ctx: r.Context()},
			}, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := download.Params{Client: &http.Client{Transport: respond}, Cache: published.Cache(filepath.Join(dir, name))}
			begin := time.Now()
			_, err := download.Get(context.Background(), "ml-1m", p)
			if !errors.Is(err, download.ErrStalled) || time.Since(begin) != time.Minute {
				t.Errorf("%s: %v after %v, want ErrStalled after a minute", name, err, time.Since(begin))
			}
			var partial *download.PartialError
			if name == "no body" && (!errors.As(err, &partial) || partial.Have != 4 || partial.Want != 1000) {
				t.Errorf("%s: error is %v, want a *PartialError of 4 of 1000 bytes", name, err)
			}
		})
	}
}

// TestGetTooLarge: what no published set can be is not kept.
func TestGetTooLarge(t *testing.T) {
	dir := t.TempDir()
	p := download.Params{Cache: published.Cache(dir), Client: &http.Client{Transport: answer(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, ContentLength: 9 << 30, Body: io.NopCloser(strings.NewReader("some")),
		}, nil
	})}}
	want := "https://files.grouplens.org/datasets/movielens/ml-1m.zip: sends more than any published set, 9663676416 bytes"
	if _, err := download.Get(context.Background(), "ml-1m", p); err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v, want none", len(left), err)
	}
}

// TestGetStrangeRange: a server that answers with another range than was asked for is
// not believed.
func TestGetStrangeRange(t *testing.T) {
	dir := t.TempDir()
	p := download.Params{Cache: published.Cache(dir), Client: &http.Client{Transport: answer(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusPartialContent, Header: http.Header{"Content-Range": {"bytes 3-9/10"}}, Body: io.NopCloser(strings.NewReader("3456789")),
		}, nil
	})}}
	part := filepath.Join(dir, "ml-1m.zip.part")
	if err := os.WriteFile(part, []byte("01"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := `https://files.grouplens.org/datasets/movielens/ml-1m.zip: the server sent the range "bytes 3-9/10", want bytes from 2 on with the size of the whole; remove ` + part + ` to start anew`
	if _, err := download.Get(context.Background(), "ml-1m", p); err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if text, err := os.ReadFile(part); err != nil || string(text) != "01" {
		t.Errorf("the part is %q, %v, want it untouched", text, err)
	}
}
