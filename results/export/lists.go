package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/fedsim/fedsim/model"
)

// Line is an item of one user's list of recommendations.
type Line struct {
	User      string  `parquet:"user"`
	Rank      int64   `parquet:"rank"` // from 1
	Item      string  `parquet:"item"`
	Title     string  `parquet:"title"`
	Score     float64 `parquet:"score"` // descends with the rank
	Predicted float64 `parquet:"predicted"`
	By        string  `parquet:"by"` // what the list rests on
}

// LineWriter writes a file of lists.
type LineWriter interface {
	Write([]Line) error
	Close() error
}

// Parquet writes files in the format Parquet. It is nil in a program that does not import package results/export/parquet.
var Parquet interface {
	Embeddings(io.Writer, model.Embeddings) error
	Lists(io.Writer) LineWriter
}

var errNoParquet = errors.New("export: this program cannot write Parquet files; import github.com/fedsim/fedsim/results/export/parquet, or choose another format")

// Lists writes lines of recommendations, and ends the file when it is closed.
type Lists struct {
	csv     *csv.Writer
	parquet LineWriter
}

// NewLists begins a file of lists as csv or parquet.
func NewLists(w io.Writer, format string) (*Lists, error) {
	switch format {
	case "csv":
		l := &Lists{csv: csv.NewWriter(w)}
		return l, l.csv.Write([]string{"user", "rank", "item", "title", "score", "predicted", "by"})
	case "parquet":
		if Parquet == nil {
			return nil, errNoParquet
		}
		return &Lists{parquet: Parquet.Lists(w)}, nil
	}
	return nil, fmt.Errorf("export: lists have no format %q", format)
}

// Write appends lines.
func (l *Lists) Write(lines []Line) error {
	if l.parquet != nil {
		return l.parquet.Write(lines)
	}
	for _, x := range lines {
		err := l.csv.Write([]string{x.User, strconv.FormatInt(x.Rank, 10), x.Item, x.Title, strconv.FormatFloat(x.Score, 'g', -1, 64), strconv.FormatFloat(x.Predicted, 'g', -1, 64), x.By})
		if err != nil {
			return err
		}
	}
	return nil
}

// Close writes what is left.
func (l *Lists) Close() error {
	if l.parquet != nil {
		return l.parquet.Close()
	}
	l.csv.Flush()
	return l.csv.Error()
}
