// Package download fetches published data sets into the cache from which package dataset reads them.
// Nothing else in this module downloads anything.
//
//	result, err := download.Get(ctx, "ml-1m", download.Params{})
//	...
//	set, err := read.Open(ctx, "ml-1m", read.Options{})
//
// The package promises:
//
//   - A file with the name of an archive is complete, and its digest was checked: against
//     the digests built into package dataset or, for a set that its publisher renews,
//     against the MD5 published beside it.
//   - A valid archive in the cache is not downloaded again. An archive is removed or
//     replaced only by an archive whose digest is right.
//   - A download that breaks off, is interrupted, or stalls for a minute leaves the bytes
//     received in a .part file. The next download resumes from it if the server still
//     has the same file. A download that breaks off is resumed at once, a few times.
package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset/published"
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

// StatusError is a response of the server that is not the archive.
type StatusError struct {
	Address string
	Status  string // "404 Not Found"
}

// Error has the server's response and the address.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: the server answered %s", e.Address, e.Status)
}

const (
	checkedBuiltIn = "checked against the digests built in"
	checkedBeside  = "checked against the digest published beside it, not one built in"
)

// Get makes sure that the archive of a published set is in the cache and valid. The error is
// [*PartialError] for a download that stalled, was interrupted or broke off, and [*StatusError] for an
// unusable response of the server. Other errors wrap [ErrUnknown], [ErrDigest], or the error of ctx,
// of the network or of the disk. Two concurrent calls for one set spoil each other's partial file,
// which the digest detects.
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
	if p.Client == nil {
		p.Client = http.DefaultClient
	}
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
	if err = p.Cache.Keep(set, t.file, result.Receipt); err != nil {
		return result, err
	}
	t.forget()
	return result, nil
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
	var names []string
	for _, set = range published.Sets() {
		if set.Address != "" {
			names = append(names, set.Name)
		}
	}
	return published.Set{}, fmt.Errorf("%q is %w; want one of %s", name, ErrUnknown, strings.Join(names, ", "))
}

// alreadyThere reports whether the cache holds the archive, at least one digest of it is known, and
// all known digests are right. The digest of a renewed set is in its receipt.
func (p Params) alreadyThere(ctx context.Context, set published.Set, r *Result) (bool, error) {
	if !p.Cache.Has(set) {
		return false, nil
	}
	digest, checks, err := p.Cache.Check(ctx, set)
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
	r, err := request(ctx, p.Client, address, nil)
	if err != nil {
		return "", err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	if r.StatusCode != http.StatusOK {
		return "", &StatusError{Address: address, Status: r.Status}
	}
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
