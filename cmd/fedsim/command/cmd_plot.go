package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/study"
)

// plotCmd is fedsim plot: one picture of finished runs.
type plotCmd struct {
	Dirs   []string `arg:"" name:"dir" help:"Folders of runs, or folders that hold some."`
	Figure string   `default:"quality" placeholder:"NAME" help:"quality (against epsilon), learning, clock, epsilon, dropouts, stages, popularity or bytes. Default quality."`
	Out    string   `required:"" placeholder:"FILE" help:"File to write, which must end in .svg or .png."`
	Width  float64  `default:"16" placeholder:"CM" help:"Width in centimetres. Default 16."`
}

// Run implements fedsim plot.
func (c *plotCmd) Run(s streams) error {
	format := strings.TrimPrefix(filepath.Ext(c.Out), ".")
	switch {
	case format != "svg" && format != "png":
		return cli.Misusef("--out %s: a name that ends in .svg or .png is needed", c.Out)
	case !(c.Width >= 4 && c.Width <= 200):
		return cli.Misusef("--width %v: 4 to 200 centimetres are possible", c.Width)
	}
	runs, err := study.Load(s.warn, c.Dirs...)
	if err == nil {
		runs, err = runs.Whole(s.warn)
	}
	if err != nil {
		return err
	}
	all, err := runs.Figures()
	if err != nil {
		return err
	}
	var names []string
	for _, f := range all {
		names = append(names, f.ID)
	}
	at := slices.Index(names, c.Figure)
	if at < 0 {
		return cli.Misusef("--figure %s: these runs give %s", c.Figure, strings.Join(names, ", "))
	}
	var b bytes.Buffer
	if err = all[at].Draw(&b, format, c.Width); err != nil {
		return err
	}
	if err = os.WriteFile(c.Out, b.Bytes(), 0o666); err != nil {
		_ = os.Remove(c.Out) // half of it
		return err
	}
	fmt.Fprintf(s.err, "%s: %s\n", c.Out, all[at].Title)
	return nil
}
