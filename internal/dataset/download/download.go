// Package download fetches published data sets into the cache that package dataset reads.
// Nothing else in this module downloads anything.
//
//	result, err := download.Get(ctx, "ml-1m", download.Params{})
//	...
//	set, err := read.Open(ctx, "ml-1m", read.Options{})
//
// The package promises:
//
//   - A file with the name of an archive is complete, and its digest was checked: against those built in or, for a set that its publisher
//     renews, against the MD5 published beside it.
//   - A valid archive in the cache is not downloaded again. Only an archive whose digest is right takes its place.
//   - A download that breaks off, is interrupted, or stalls for a minute leaves the bytes received in a .part file, and the next download
//     resumes there. The digest tells if the server has another file by then. Where a download breaks off, it is resumed at once, a few times.
package download

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/lists"
)

// Params say where to download from and to. The zero value is ready to use.
type Params struct {
	// Client makes the requests; nil means http.DefaultClient. Its Timeout, if any,
	// bounds the whole download, so it is better without.
	Client *http.Client

	// Mirror is the address of a folder that holds the same archives, and the .md5
	// files beside them, under the same names; "" means their publisher's.
	Mirror string

	// Cache is where archives are kept; "" means [dataset.UserCache].
	Cache published.Cache

	// Progress, when not nil, is called with how many bytes of the archive have arrived;
	// total is 0 as long as its size is unknown. Calls do not overlap.
	Progress func(done, total int64)
}

// Result says what is in the cache now.
type Result struct {
	Name string `json:"name"`
	Path string `json:"path"` // of the archive
	published.Receipt
	Downloaded int64  `json:"downloaded"` // bytes that came over the network; 0 when it was there already
	Terms      string `json:"terms"`      // address of the terms under which it may be used
}

var (
	// ErrUnknown is wrapped by the error of a name that is no published set, or of a set that cannot
	// be downloaded; the error lists the sets that can.
	ErrUnknown = errors.New("not a set that can be downloaded")

	// ErrDigest is wrapped by the error of an archive with a wrong digest. The error has
	// the expected digest and the actual one.
	ErrDigest = errors.New("wrong digest")

	// ErrStalled is wrapped by the error of a request that received nothing for a minute.
	ErrStalled = errors.New("nothing came for a minute")
)

const (
	checkedBuiltIn = "checked against the digests built in"
	checkedBeside  = "checked against the digest published beside it, not one built in"
)

// Get makes sure that the archive of a published set is in the cache and valid. The error is [*PartialError] for a download that stalled, was
// interrupted or broke off. Other errors wrap [ErrUnknown], [ErrDigest], or the error of ctx, of the network or of the disk. Two concurrent
// calls for one set spoil each other's partial file, which the digest detects.
func Get(ctx context.Context, name string, p Params) (Result, error) {
	set, err := find(name)
	if err != nil {
		return Result{}, err
	}
	if p.Cache == "" {
		if p.Cache, err = published.UserCache(); err != nil {
			return Result{}, err
		}
	}
	p.Client = cmp.Or(p.Client, http.DefaultClient)
	address := set.Address
	if p.Mirror != "" {
		address = strings.TrimSuffix(p.Mirror, "/") + address[strings.LastIndexByte(address, '/'):]
	}
	result := Result{Name: name, Path: p.Cache.Archive(set), Terms: set.Terms}
	there, err := p.alreadyThere(ctx, set, &result)
	if there || err != nil {
		return result, err
	}
	if err = os.MkdirAll(string(p.Cache), 0o755); err != nil {
		return result, err
	}
	want := published.FileDigest{MD5: set.MD5, SHA256: set.SHA256}
	result.Checked = checkedBuiltIn
	if set.Renewed() {
		result.Checked = checkedBeside
		if want.MD5, err = p.digestBeside(ctx, address+".md5"); err != nil {
			return result, err
		}
	}
	t := &transfer{Params: p, address: address, file: result.Path + ".part"}
	if err = t.run(ctx); err != nil {
		return result, err
	}
	result.Address, result.Downloaded = address, t.received
	if result.FileDigest, err = t.check(ctx, want); err != nil {
		return result, err
	}
	return result, p.Cache.Keep(set, t.file, result.Receipt)
}

// find looks a set up that can be downloaded.
func find(name string) (published.Set, error) {
	set, ok := published.Lookup(name)
	if ok && set.Address != "" {
		return set, nil
	}
	if ok {
		return set, fmt.Errorf("%s is %w: fedsim knows no address of it that will last; look for it at %s", name, ErrUnknown, set.Terms)
	}
	all := slices.DeleteFunc(published.Sets(), func(set published.Set) bool { return set.Address == "" })
	names := lists.Map(all, func(set published.Set) string { return set.Name })
	return published.Set{}, fmt.Errorf("%q is %w; want one of %s", name, ErrUnknown, strings.Join(names, ", "))
}

// alreadyThere reports whether the cache holds the archive, at least one digest of it is known, and
// all known digests are right. The digest of a renewed set is in its receipt.
func (p Params) alreadyThere(ctx context.Context, set published.Set, r *Result) (bool, error) {
	if !p.Cache.Has(set) {
		return false, nil
	}
	digest, checks, err := p.Cache.Check(ctx, set, r.Path)
	wrong := func(c published.Check) bool { return !c.OK }
	if err != nil || len(checks) == 0 || slices.ContainsFunc(checks, wrong) {
		return false, ctx.Err() // whatever is wrong with it, a download mends it
	}
	if r.Receipt, err = p.Cache.Receipt(set); err != nil { // another program or the user put it there
		r.Receipt = published.Receipt{Address: set.Address, FileDigest: digest, Checked: checkedBuiltIn}
	}
	return true, nil
}

// digestLine is an MD5 as md5sum or md5 prints it.
var digestLine = regexp.MustCompile(`\b[0-9a-fA-F]{32}\b`)

// digestBeside reads the MD5 of a .md5 file.
func (p Params) digestBeside(ctx context.Context, address string) (string, error) {
	r, err := request(ctx, p.Client, address, 0)
	if err != nil {
		return "", err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	text, err := io.ReadAll(io.LimitReader(r, 4<<10))
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	found := digestLine.FindAllString(string(text), 2)
	if len(found) != 1 {
		return "", fmt.Errorf("%s: %w: holds %d MD5 digests, want one", address, ErrDigest, len(found))
	}
	return strings.ToLower(found[0]), nil
}

// response is an answer whose body ends with ErrStalled when nothing comes for too long.
type response struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// request asks for a file as it is, without its first have bytes if there are some. The answer has the whole file, or what is missing, or
// says that the server does not have that range.
func request(ctx context.Context, client *http.Client, address string, have int64) (*response, error) {
	r := &response{}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, address, nil)
	if err != nil {
		r.cancel(nil)
		return nil, err
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	req.Header.Set("Accept-Encoding", "identity") // a packed answer has other bytes to resume from
	r.timer = time.AfterFunc(stallAfter, func() { r.cancel(ErrStalled) })
	if r.Response, err = client.Do(req); err != nil {
		err = r.cause(err)
		r.timer.Stop()
		r.cancel(nil)
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if s := r.StatusCode; s != http.StatusOK && (have == 0 || s != http.StatusPartialContent && s != http.StatusRequestedRangeNotSatisfiable) {
		return nil, errors.Join(fmt.Errorf("%s: the server answered %s", address, r.Status), r.Close())
	}
	return r, nil
}

// Read reads the body.
func (r *response) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil { // the body may still have something at hand
		return 0, r.cause(err)
	}
	n, err := r.Body.Read(p)
	r.timer.Reset(stallAfter)
	if err != nil && err != io.EOF {
		err = r.cause(err)
	}
	return n, err
}

// cause returns why the request was ended from this side, or else what ended it.
func (r *response) cause(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if network, ok := errors.AsType[*url.Error](err); ok {
		return network.Err // who calls adds the address
	}
	return err
}

// Close ends the request.
func (r *response) Close() error {
	r.timer.Stop()
	err := r.Body.Close()
	r.cancel(nil)
	return err
}

const (
	stallAfter = time.Minute
	maxTries   = 5
	maxArchive = 8 << 30 // bytes; no published set comes near
)

// transfer brings one archive to a .part file, in as many attempts as it takes.
type transfer struct {
	Params
	address  string
	file     string // the .part file
	received int64  // bytes that came over the network
}

// PartialError is an incomplete download. The bytes received are kept for the next call.
type PartialError struct {
	File string // that keeps it
	Have int64  // bytes received; the next call resumes after them
	Want int64  // bytes of the whole, 0 when the server did not say
	Err  error  // why: the error of the context or of the network, or ErrStalled
}

// Error says why the download ended, and where the next call resumes.
func (e *PartialError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("the download broke off: %v; the same command starts it anew", e.Err)
	}
	of := ""
	if e.Want > 0 {
		of = fmt.Sprintf(" of %d", e.Want)
	}
	return fmt.Sprintf("the download broke off: %v; %d%s bytes are kept in %s, and the same command continues from there", e.Err, e.Have, of, e.File)
}

// Unwrap returns why it ended.
func (e *PartialError) Unwrap() error { return e.Err }

// run tries until the whole archive is there. An attempt that brought nothing, stalled
// or was interrupted is the last.
func (t *transfer) run(ctx context.Context) error {
	for try := 1; ; try++ {
		before := t.received
		err := t.attempt(ctx)
		_, partial := errors.AsType[*PartialError](err)
		if !partial || errors.Is(err, ErrStalled) || ctx.Err() != nil || t.received == before || try == maxTries {
			return err
		}
	}
}

// attempt makes one request for what is not there yet, and appends it.
func (t *transfer) attempt(ctx context.Context) error {
	have := t.partial()
	r, err := request(ctx, t.Client, t.address, have)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	total := max(r.ContentLength, 0)
	switch r.StatusCode {
	case http.StatusOK:
		have = 0
	case http.StatusPartialContent:
		var first, last int64
		if _, err = fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total); err != nil || first != have {
			return fmt.Errorf("%s: the server sent the range %q, want bytes from %d on with the size of the whole; remove %s to start anew",
				t.address, r.Header.Get("Content-Range"), have, t.file)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		if r.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", have) {
			return nil // it is whole already
		}
		if err = os.Remove(t.file); err != nil {
			return err
		}
		return t.attempt(ctx)
	}
	how := os.O_TRUNC
	if have > 0 {
		how = os.O_APPEND
	}
	f, err := os.OpenFile(t.file, os.O_WRONLY|os.O_CREATE|how, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(t.copy(f, r, have, total), f.Close())
	if errors.Is(err, errTooLarge) {
		err = errors.Join(err, os.Remove(t.file))
	}
	return err
}

var errTooLarge = errors.New("more than any published set")

// copy appends the bytes of r to the part, which holds the first have bytes of total.
func (t *transfer) copy(f *os.File, r io.Reader, have, total int64) error {
	buf := make([]byte, 256<<10)
	for {
		n, readErr := r.Read(buf)
		if _, err := f.Write(buf[:n]); err != nil {
			return err
		}
		have += int64(n)
		t.received += int64(n)
		if t.Progress != nil {
			t.Progress(have, total)
		}
		switch {
		case max(have, total) > maxArchive:
			return fmt.Errorf("%s: sends %w, %d bytes", t.address, errTooLarge, max(have, total))
		case errors.Is(readErr, io.EOF) && (total == 0 || have == total):
			return f.Sync()
		case readErr != nil:
			return &PartialError{File: t.file, Have: t.partial(), Want: total, Err: readErr}
		}
	}
}

// partial returns how many bytes are there already.
func (t *transfer) partial() int64 {
	info, err := os.Stat(t.file)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// check compares the part, as it lies on the disk, with the digests it should have; an empty digest is
// unknown. It removes a part whose digest is wrong.
func (t *transfer) check(ctx context.Context, want published.FileDigest) (published.FileDigest, error) {
	got, err := published.DigestFile(ctx, t.file)
	if err != nil {
		return got, err
	}
	for _, d := range []struct{ name, got, want string }{{"md5", got.MD5, want.MD5}, {"sha-256", got.SHA256, want.SHA256}} {
		if d.want != "" && d.got != d.want {
			err = fmt.Errorf("%s: %w: %s of the %d bytes that came is %s, want %s; they were removed, and nothing else was",
				t.address, ErrDigest, d.name, got.Size, d.got, d.want)
			return got, errors.Join(err, os.Remove(t.file))
		}
	}
	return got, nil
}
