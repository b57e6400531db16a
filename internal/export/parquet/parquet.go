// Package parquet lets package export write Parquet files. A program imports it for that effect; both commands do.
package parquet

import (
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/fedsim/fedsim/internal/export"
	"github.com/fedsim/fedsim/model"
)

func init() { export.Parquet = writer{} }

type writer struct{}

// Embeddings writes the columns id and embedding, a list of numbers.
func (writer) Embeddings(w io.Writer, x model.Embeddings) error {
	type row struct {
		ID        string    `parquet:"id"`
		Embedding []float64 `parquet:"embedding,list"`
	}
	var rows []row
	for i, id := range x.IDs {
		rows = append(rows, row{id, x.Matrix.Row(i)})
	}
	return parquet.Write(w, rows)
}

// Lists begins a file of lists.
func (writer) Lists(w io.Writer) export.LineWriter {
	return lists{parquet.NewGenericWriter[export.Line](w)}
}

type lists struct {
	*parquet.GenericWriter[export.Line]
}

func (l lists) Write(lines []export.Line) error {
	_, err := l.GenericWriter.Write(lines)
	return err
}
