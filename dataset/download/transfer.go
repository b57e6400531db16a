package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/fedsim/fedsim/dataset/published"
)

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

// PartialError is an incomplete download. The bytes received are kept for the next call,
// if the server distinguishes versions of its file.
type PartialError struct {
	File string // that keeps it
	Have int64  // bytes received; the next call resumes after them
	Want int64  // bytes of the whole, 0 when the server did not say
	Err  error  // why: the error of the context or of the network, or ErrStalled
}

// Error says why the download ended, and where the next call resumes.
func (e *PartialError) Error() string {
	of := ""
	if e.Want > 0 {
		of = fmt.Sprintf(" of %d", e.Want)
	}
	if e.Have == 0 {
		return fmt.Sprintf("the download broke off: %v; the same command starts it anew", e.Err)
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
	have, tag := t.partial()
	header := http.Header{}
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		header.Set("If-Range", tag) // another file comes whole
	}
	r, err := request(ctx, t.Client, t.address, header)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	total := max(r.ContentLength, 0)
	switch {
	case r.StatusCode == http.StatusOK:
		have = 0
	case r.StatusCode == http.StatusPartialContent && have > 0:
		var first, last int64
		if _, err = fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total); err != nil || first != have {
			return fmt.Errorf("%s: the server sent the range %q, want bytes from %d on with the size of the whole; remove %s to start anew",
				t.address, r.Header.Get("Content-Range"), have, t.file)
		}
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0:
		if r.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", have) {
			return nil // it is whole already
		}
		if err = t.discard(); err != nil {
			return err
		}
		return t.attempt(ctx)
	default:
		return &StatusError{Address: t.address, Status: r.Status}
	}
	f, err := t.open(have, validator(r.Header))
	if err != nil {
		return err
	}
	err = errors.Join(t.copy(f, r, have, total), f.Close())
	if errors.Is(err, errTooLarge) {
		err = errors.Join(err, t.discard())
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
			kept, _ := t.partial()
			return &PartialError{File: t.file, Have: kept, Want: total, Err: readErr}
		}
	}
}

// partial returns how much is there already and the tag of the file that it is a part
// of. Without a tag it is worth nothing.
func (t *transfer) partial() (have int64, tag string) {
	info, err := os.Stat(t.file)
	text, tagErr := os.ReadFile(t.tagFile())
	if err != nil || tagErr != nil || !info.Mode().IsRegular() {
		return 0, ""
	}
	return info.Size(), string(text)
}

// open opens the part to append to it after the first have bytes. A new one begins with
// the tag of the file it will be a part of.
func (t *transfer) open(have int64, tag string) (*os.File, error) {
	if have > 0 {
		return os.OpenFile(t.file, os.O_WRONLY|os.O_APPEND, 0o644)
	}
	f, err := os.OpenFile(t.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	t.forget()
	if tag != "" {
		err = os.WriteFile(t.tagFile(), []byte(tag), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (t *transfer) tagFile() string { return t.file + ".tag" }

// forget removes the tag.
func (t *transfer) forget() {
	_ = os.Remove(t.tagFile()) // mostly not there; a tag that stays makes the server send the whole file at worst
}

// discard removes the part.
func (t *transfer) discard() error {
	t.forget()
	return os.Remove(t.file)
}

// validator returns what tells one version of a file from another, "" for none. A weak
// tag (RFC 9110, 13.1.5) does not vouch for the same bytes.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
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
			return got, errors.Join(err, t.discard())
		}
	}
	return got, nil
}
