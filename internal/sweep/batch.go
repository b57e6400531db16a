package sweep

import (
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
	Folder  string // absolute
	Program string // fedsim, as a task finds it
	CPUs    int    // of a task
	MiB     int    // memory of a task
	Minutes int    // that a task may take
	Image   string // of a container with fedsim, for Kubernetes
	Claim   string // the persistent volume claim that holds the folder, for Kubernetes
	Jobs    int    // tasks at a time
	Tasks   int
}

// slurmScript is a job array. A task finds its run in a list, by its number.
var slurmScript = template.Must(template.New("").Parse(`#!/bin/bash
# {{.Tasks}} runs of fedsim, one a task. Submit with: sbatch THIS-FILE
#SBATCH --job-name=fedsim-sweep
#SBATCH --array=1-{{.Tasks}}%{{.Jobs}}
#SBATCH --cpus-per-task={{.CPUs}}
#SBATCH --mem={{.MiB}}M
#SBATCH --time={{.Minutes}}
#SBATCH --output={{.Folder}}/logs/slurm-%A-%a.txt
set -eu
run=$(sed -n "${SLURM_ARRAY_TASK_ID}p" '{{.Folder}}/open.txt')
if [ -e '{{.Folder}}'/"$run"/summary.json ]; then exit 0; fi
exec {{.Program}} run --from '{{.Folder}}'/experiments/"$run".yaml --resume --workers {{.CPUs}}
`))

// kubernetesJob is an Indexed Job: each pod finds its run in the list, by its index.
var kubernetesJob = template.Must(template.New("").Parse(`# {{.Tasks}} runs of fedsim, one a pod. Submit with: kubectl create -f THIS-FILE
apiVersion: batch/v1
kind: Job
metadata:
  generateName: fedsim-sweep-
spec:
  completionMode: Indexed
  completions: {{.Tasks}}
  parallelism: {{.Jobs}}
  backoffLimitPerIndex: 1
  maxFailedIndexes: {{.Tasks}}
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: fedsim
          image: {{.Image}}
          workingDir: {{.Folder}}
          command: ["/bin/sh", "-euc"]
          args:
            - |
              run=$(sed -n "$((JOB_COMPLETION_INDEX + 1))p" '{{.Folder}}/open.txt')
              if [ -e '{{.Folder}}'/"$run"/summary.json ]; then exit 0; fi
              exec {{.Program}} run --from '{{.Folder}}'/experiments/"$run".yaml --resume --workers {{.CPUs}}
          resources:
            requests: {cpu: "{{.CPUs}}", memory: {{.MiB}}Mi}
            limits: {memory: {{.MiB}}Mi}
          volumeMounts:
            - {name: sweep, mountPath: {{.Folder}}}
      activeDeadlineSeconds: {{.Seconds}}
      volumes:
        - name: sweep
          persistentVolumeClaim: {claimName: {{.Claim}}}
`))

// Seconds is Minutes in seconds.
func (b Batch) Seconds() int { return 60 * b.Minutes }

// Slurm is the script of a job array.
func (b Batch) Slurm() (string, error) { return b.fill(slurmScript) }

// Kubernetes is the manifest of an Indexed Job.
func (b Batch) Kubernetes() (string, error) { return b.fill(kubernetesJob) }

func (b Batch) fill(t *template.Template) (string, error) {
	for what, text := range map[string]string{"folder": b.Folder, "program": b.Program, "image": b.Image, "claim": b.Claim} {
		if strings.ContainsAny(text, "'\"\n`$\\") {
			return "", fmt.Errorf("the %s %q holds a character that a shell would read as its own", what, text)
		}
	}
	var text strings.Builder
	err := t.Execute(&text, b)
	return text.String(), err
}

// Unseen returns the files and folders of this machine that settings name and that no pod sees, in order: the pods have the
// folder of the sweep alone, and work in it.
func (f *Folder) Unseen() []string {
	var list []string
	for _, k := range config.Keys() {
		if k.Kind != config.Text || k.Name == algorithm.Out.Name || k.Name == algorithm.RunName.Name {
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
