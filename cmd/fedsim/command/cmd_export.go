package command

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/export"
)

// exportCmd is fedsim export.
type exportCmd struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, or of a deployment's model."`
	To     string `required:"" enum:"parquet,csv,safetensors,faiss,word2vec" placeholder:"FORMAT" help:"parquet, csv, safetensors, faiss (an IndexFlatIP) or word2vec (its text format)."`
	Out    string `placeholder:"DIR" help:"Folder to make. Default: export-FORMAT in the run's folder."`
}

// Run implements fedsim export.
func (c *exportCmd) Run(s streams) error {
	all, err := results.ReadEmbeddings(c.Folder)
	if err != nil {
		return cli.Misusef("--run: %w", err)
	}
	out := c.Out
	if out == "" {
		out = filepath.Join(c.Folder, "export-"+c.To)
	}
	files, err := export.Write(c.To, out, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: %s\n", out, strings.Join(files, ", "))
	return nil
}
