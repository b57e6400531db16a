package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/s3" // s3://...

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/experiment"
)

// Open loads an experiment, as [experiment.OpenPacked] does: its data may also be one file of a store, gs://BUCKET/NAME or
// s3://BUCKET/NAME, such as packed ratings. The file is copied to the folder of temporary files, and the copy is removed before Open
// returns; packed ratings stay mapped. progress, which may be nil, is called with how much of the data is read.
func Open(ctx context.Context, c config.Config, progress func(done, total int64)) (*experiment.Experiment, error) {
	data := algorithm.Data.Of(c)
	if !stored(data) {
		return experiment.OpenPacked(ctx, c, progress)
	}
	dir, err := os.MkdirTemp("", "fedbeam-data-")
	if err != nil {
		return nil, err
	}
	e, err := openCopy(ctx, c, data, filepath.Join(dir, path.Base(data)), progress)
	if left := os.RemoveAll(dir); left != nil && err == nil {
		err = left
	}
	if err != nil {
		return nil, fmt.Errorf("data %q: %w", data, err)
	}
	return e, nil
}

// openCopy copies the data to a file, and opens that.
func openCopy(ctx context.Context, c config.Config, data, file string, progress func(done, total int64)) (*experiment.Experiment, error) {
	if err := fetch(ctx, data, file, progress); err != nil {
		return nil, err
	}
	o := experiment.DataOptions(c)
	o.Progress, o.Packed = progress, algorithm.Of(c).About().ByUser
	set, err := read.Open(ctx, file, o)
	if err != nil {
		return nil, err
	}
	return experiment.OpenSet(c, set)
}

// fetch copies a file of a store.
func fetch(ctx context.Context, from, to string, progress func(done, total int64)) (err error) {
	system, err := storeOf(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	total, err := system.Size(ctx, from)
	if err != nil {
		return err
	}
	r, err := system.OpenRead(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(&counted{f, 0, total, progress}, r)
	if err = errors.Join(err, f.Close()); err == nil && n != total {
		err = fmt.Errorf("%d of its %d bytes came", n, total)
	}
	return err
}

// counted tells how much was written.
type counted struct {
	w           io.Writer
	done, total int64
	progress    func(done, total int64)
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.done += int64(n); c.progress != nil {
		c.progress(c.done, c.total)
	}
	return n, err
}

// stored reports whether a name is of a file in a store, and not of this machine.
func stored(name string) bool { return strings.Contains(name, "://") }

// storeOf returns the file system of a name. It returns an error if a store finds no credentials; the store's own
// library panics then.
func storeOf(ctx context.Context, name string) (system filesystem.Interface, err error) {
	defer func() {
		if said := recover(); said != nil {
			err = fmt.Errorf("the store of %s: %v", name, said)
		}
	}()
	return filesystem.New(ctx, name)
}
