package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs"   // gs://...
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local" // paths
)

// exchange is the folder through which the pipeline tells the program how far it is. Both must reach it: it is on this
// machine or gs://BUCKET/FOLDER. A worker that repeats a piece of work writes a file again with the same bytes.
type exchange string

// turnFile is the server's side before a round.
func (x exchange) turnFile(round int) string { return fmt.Sprintf("%s/before-round-%06d", x, round) }

// shardFile names the file with the state of a shard's trainers after a round.
func (x exchange) shardFile(round, shard int) string {
	return fmt.Sprintf("%s/after-round-%06d-shard-%05d", x, round, shard)
}

// write writes a file whose end says that it is whole.
func (x exchange) write(ctx context.Context, name string, b []byte) (err error) {
	if x.onDisk() { // a worker that is late must not have Beam make the folder anew when the run has removed it
		if _, err = os.Stat(string(x)); err != nil {
			return err
		}
	}
	system, err := storeOf(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	w, err := system.OpenWrite(ctx, name)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	_, err = w.Write(b)
	if err == nil {
		_, err = w.Write(sum[:])
	}
	return errors.Join(err, w.Close())
}

// errAbsent is returned for a file that is not there as a whole.
var errAbsent = errors.New("the file is not there, or not whole")

// read reads a file that write wrote.
func (x exchange) read(ctx context.Context, name string) (b []byte, err error) {
	system, err := storeOf(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	r, err := system.OpenRead(ctx, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "doesn't exist") { // as storage says it
			err = fmt.Errorf("%s: %w", name, errAbsent)
		}
		return nil, err
	}
	all, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	n := len(all) - sha256.Size
	if n < 0 {
		return nil, fmt.Errorf("%s: %w", name, errAbsent)
	}
	if sum := sha256.Sum256(all[:n]); !bytes.Equal(sum[:], all[n:]) {
		return nil, fmt.Errorf("%s: %w", name, errAbsent)
	}
	return all[:n], nil
}

// newExchange makes a folder for one run in the folder within; "": in the folder of temporary files. Its name is random,
// so that this run never reads files that an earlier run left behind.
func newExchange(within, identity string) (exchange, error) {
	if within == "" {
		within = os.TempDir()
	}
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	x := exchange(fmt.Sprintf("%s/fedbeam-%s-%x", strings.TrimRight(within, "/"), identity[:16], b))
	if !x.onDisk() {
		return x, nil // folders are made by the files in them
	}
	return x, os.MkdirAll(string(x), 0o700)
}

func (x exchange) remove() error {
	if x.onDisk() {
		return os.RemoveAll(string(x))
	}
	ctx := context.Background()
	system, err := storeOf(ctx, string(x))
	if err != nil {
		return err
	}
	defer system.Close() //nolint:errcheck // nothing was written by it
	r, ok := system.(filesystem.Remover)
	if !ok {
		return nil
	}
	files, err := system.List(ctx, string(x)+"/*")
	for _, f := range files {
		err = errors.Join(err, r.Remove(ctx, f))
	}
	return err
}

// onDisk reports whether the folder is of this machine, or seems to be.
func (x exchange) onDisk() bool { return !stored(string(x)) }
