package command

import (
	"bytes"
	"fmt"
	"os"

	"github.com/fedsim/fedsim/study"
	"github.com/fedsim/fedsim/study/page"
)

// reportCmd is fedsim report: one page of finished runs.
type reportCmd struct {
	Dirs  []string `arg:"" name:"dir" help:"Folders of runs, or folders that hold some."`
	Out   string   `default:"report.html" placeholder:"FILE" help:"File to write. Default report.html."`
	Title string   `default:"Private recommenders: a study" help:"Its title."`
}

// Run implements fedsim report.
func (c *reportCmd) Run(s streams) error {
	runs, err := study.Load(c.Dirs...)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err = page.Write(&b, page.Content{Title: c.Title, Parts: []page.Part{{ID: "runs", Dirs: c.Dirs, Runs: runs}}}); err != nil {
		return err
	}
	if err = os.WriteFile(c.Out, b.Bytes(), 0o666); err != nil {
		_ = os.Remove(c.Out) // half of it
		return err
	}
	fmt.Fprintf(s.err, "%s: %d runs\n", c.Out, len(runs))
	return nil
}
