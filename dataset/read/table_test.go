package read

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// alone is a file without others beside it.
func alone(string) bool { return false }

// TestReadError: an error of the source keeps its kind and is not blamed on a line.
func TestReadError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("user,item,rating\na,b,1\n"), iotest.ErrReader(io.ErrClosedPipe))
	_, err := readRatings(context.Background(), inputOf("x.csv", broken, alone), Options{})
	if want := "x.csv: " + io.ErrClosedPipe.Error(); err == nil || err.Error() != want || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error is %v, want %s, wrapped", err, want)
	}
}

// chunks reads a few bytes at a time.
type chunks struct {
	r    io.Reader
	size int
}

func (c *chunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.size)]) }
