package sweep

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/atomicfile"
)

// Batch describes the tasks for a cluster. Every task runs one experiment file with fedsim; the
// tasks must see the folder, too.
type Batch struct {
	Folder  string `kong:"-"` // absolute
	Program string `kong:"-"` // fedsim, as a task finds it
	MiB     int    `name:"memory" placeholder:"MIB" help:"Memory of a run on a cluster. Default: by the forecast."`
	Minutes int    `default:"60" placeholder:"N" help:"Minutes that a run on a cluster may take."`
	CPUs    int    `name:"cpus" default:"1" placeholder:"N" help:"Cores of a run on a cluster."`
	Image   string `default:"fedsim:latest" help:"Image of a container with fedsim, for kubernetes."`
	Claim   string `default:"fedsim" help:"Persistent volume claim that is mounted at the folder of the sweep, for kubernetes."`
	Jobs    int    `kong:"-"` // tasks at a time
	Tasks   int    `kong:"-"`
}

// A task of the job array of Slurm finds its run in a list, by its number; so does a pod of the Indexed Job of Kubernetes, by its index.
//
//go:embed slurm.sh.tmpl kubernetes.yaml.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.tmpl"))

// Seconds is Minutes in seconds.
func (b Batch) Seconds() int { return 60 * b.Minutes }

// Fill returns slurm.sh, the script of a job array, or kubernetes.yaml, the manifest of an Indexed Job.
func (b Batch) Fill(name string) (string, error) {
	for what, text := range map[string]string{"folder": b.Folder, "program": b.Program, "image": b.Image, "claim": b.Claim} {
		if strings.ContainsAny(text, "'\"\n`$\\") {
			return "", fmt.Errorf("the %s %q holds a character that a shell would read as its own", what, text)
		}
	}
	var text strings.Builder
	err := templates.ExecuteTemplate(&text, name+".tmpl", b)
	return text.String(), err
}

// Unseen returns the files and folders of this machine that settings name and that no pod sees, in order: the pods have the
// folder of the sweep alone, and work in it.
func (f *Folder) Unseen() []string {
	var list []string
	for _, k := range config.Keys() {
		if k.Kind != config.Text || slices.Contains(algorithm.Placing(), k) {
			continue
		}
		for _, r := range f.Runs {
			value := r.Config.Text(k)
			if _, err := os.Stat(value); value == "" || err != nil || slices.Contains(list, value) {
				continue
			}
			there := value
			if !filepath.IsAbs(value) {
				there = filepath.Join(f.Path, value)
			}
			inside, err := filepath.Rel(f.Path, there)
			_, missing := os.Stat(there)
			if err != nil || missing != nil || !filepath.IsLocal(inside) {
				list = append(list, value)
			}
		}
	}
	return list
}

// List writes open.txt, the list of unfinished runs. Tasks find their runs in it.
func (f *Folder) List() error {
	var text strings.Builder
	for _, r := range f.Open() {
		text.WriteString(r.Name + "\n")
	}
	return atomicfile.Write(filepath.Join(f.Path, "open.txt"), []byte(text.String()), 0o644)
}
