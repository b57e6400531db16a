package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fedsim/fedsim/dataset"
)

// ErrNotPacked is wrapped by the error of a file that begins as a packed one and is none, or no longer.
var ErrNotPacked = errors.New("no whole packed file")

// Is reports whether a regular file begins as a packed one of any version.
func Is(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false // the reader of the file reports why
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	var magic [len(Magic)]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == Magic
}

// Open opens a packed file and checks every byte: its digest, and every record.
func Open(ctx context.Context, name string, o Options) (*dataset.Set, error) {
	data, err := mapFile(name)
	if err != nil {
		return nil, fmt.Errorf("data %q: %w", name, err)
	}
	set, err := FromBytes(ctx, data, o)
	if err == nil && !o.Packed {
		if set = set.Unpacked(); set.Digest != set.ComputeDigest() {
			err = errors.New("its content does not match the digest that it states")
		}
	}
	switch {
	case errors.Is(err, dataset.ErrScale) || ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w; pack the data again (fedsim data pack)", name, ErrNotPacked, err)
	}
	return set, nil
}

// FromBytes makes a set of the bytes of a packed file, which it keeps.
func FromBytes(ctx context.Context, data []byte, o Options) (*dataset.Set, error) {
	f, rest, err := readFooter(data)
	if err != nil {
		return nil, err
	}
	set := &dataset.Set{Name: f.Name, Clicks: f.Clicks, Digest: f.Digest}
	if set.Min, set.Max, err = dataset.ScaleOr(o.Min, o.Max, f.Min, f.Max); err != nil {
		return nil, err
	}
	if set.Min > f.Min || set.Max < f.Max {
		return nil, fmt.Errorf("%w: %v to %v does not hold the scale of the file, %v to %v", dataset.ErrScale, set.Min, set.Max, f.Min, f.Max)
	}
	file := &packFile{footer: f}
	file.records, rest = rest[:f.Records:f.Records], rest[f.Records:]
	file.offsets, rest = rest[:8*(f.Users+1)], rest[8*(f.Users+1):]
	if set.UserIDs, err = readIDs(rest[:f.UserIDs], f.Users, f.Users); err != nil {
		return nil, fmt.Errorf("user %w", err)
	}
	rest = rest[f.UserIDs:]
	if set.ItemIDs, err = readIDs(rest[:f.ItemIDs], f.Items, f.Ratings); err != nil {
		return nil, fmt.Errorf("item %w", err)
	}
	if err = readFeatures(rest[f.ItemIDs:][:f.Features], set, f.Items); err != nil {
		return nil, err
	}
	if err = errors.Join(checkSum(data), file.check(ctx, o.Progress)); err != nil {
		return nil, err
	}
	set.Ratings = dataset.Ratings{Users: f.Users, Items: f.Items, Packed: &view{file: file, count: f.Ratings}}
	return set, nil
}
