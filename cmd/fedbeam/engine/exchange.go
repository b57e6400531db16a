package engine

import (
	"bytes"
	"context"
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

// exchange is the folder through which the pipeline tells the program how far it is: one that both
// reach, of this machine or gs://BUCKET/FOLDER. Files are written at most with the same bytes again, by whoever
// repeats a piece of work.
type exchange string

// turnFile is the server's side before a round.
func (x exchange) turnFile(round int) string { return fmt.Sprintf("%s/before-round-%06d", x, round) }

// shardFile is what a shard's trainers keep after a round.
func (x exchange) shardFile(round, shard int) string {
	return fmt.Sprintf("%s/after-round-%06d-shard-%05d", x, round, shard)
}

// write writes a file whose end says that it is whole.
func (x exchange) write(ctx context.Context, name string, b []byte) (err error) {
	system, err := filesystem.New(ctx, name)
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
	system, err := filesystem.New(ctx, name)
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

// onDisk reports whether the folder is of this machine, or seems to be.
func (x exchange) onDisk() bool { return !strings.Contains(string(x), "://") }

// make makes the folder, where folders are made.
func (x exchange) make() error {
	if !x.onDisk() {
		return nil
	}
	return os.MkdirAll(string(x), 0o700)
}
