package internal_test

import (
	"io"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/records"
)

// This program does not import package dataset/parquet: the error names the import, and the file's first line as the place.
func TestParquetWithoutAReader(t *testing.T) {
	rows, err := records.Open(t.Context(), files.Input{ReadCloser: io.NopCloser(strings.NewReader(files.ParquetMagic + "\x15\x04")), Path: "ratings.parquet"}, records.Options{})
	if err == nil || !strings.Contains(err.Error(), "import github.com/fedsim/fedsim/dataset/parquet") {
		t.Fatalf("error %v", err)
	}
	if at := rows.Locate("ratings.parquet", err).Error(); !strings.HasPrefix(at, "ratings.parquet:1: ") {
		t.Errorf("the error is %q", at)
	}
}
