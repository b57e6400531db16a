package command

import (
	"bytes"
	"fmt"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/attack"
	"github.com/fedsim/fedsim/lab/page"
)

// reportCmd is fedsim report: one page of finished runs and of attacks.
type reportCmd struct {
	Dirs  []string `arg:"" name:"dir" help:"Folders of runs or of attacks, or folders that hold some."`
	Out   string   `default:"report.html" placeholder:"FILE" help:"File to write. Default report.html."`
	Title string   `default:"Private recommenders: a study" help:"Its title."`
}

func (c *reportCmd) Run(s verb.Streams) error {
	content, what, err := c.content(s)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err = page.Write(&b, *content); err != nil {
		return err
	}
	if err = atomicfile.Write(c.Out, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%s: %s\n", c.Out, what)
	return nil
}

// content reads the folders. It returns the page's content and a count of what is in it, for the user.
func (c *reportCmd) content(s verb.Streams) (*page.Content, string, error) {
	x, what := &page.Content{Title: c.Title}, ""
	var attacks []*attack.Report
	var ofRuns []string // folders that do not hold attacks alone
	for _, dir := range c.Dirs {
		list, err := attack.Load(s.Warn, dir)
		if err != nil {
			return nil, "", err
		}
		attacks = append(attacks, list...)
		held, err := study.Holds(dir)
		if err != nil {
			return nil, "", err
		}
		if held || len(list) == 0 { // where there is neither, loading says so
			ofRuns = append(ofRuns, dir)
		}
	}
	if len(ofRuns) > 0 {
		runs, err := study.Load(s.Warn, ofRuns...)
		if err == nil {
			runs, err = runs.Whole(s.Warn)
		}
		if err != nil {
			return nil, "", err
		}
		x.Parts = []page.Part{{ID: "runs", Dirs: ofRuns, Runs: runs}}
		what = counted(len(runs), "run")
	}
	if len(attacks) > 0 {
		x.Sections = []page.Section{attack.Section(attacks)}
		if what != "" {
			what += ", "
		}
		what += counted(len(attacks), "attack")
	}
	return x, what, nil
}

// counted returns a number with its noun, which takes an s except after 1.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
