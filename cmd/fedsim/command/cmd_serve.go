package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/export"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

type serveCmd struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, runs/NAME; of the model of a deployment's server, such as STATE/current; or of the result of an organisation's client, STATE/result. It may be a link that is replaced."`
	Data   string `placeholder:"DATA" help:"Ratings, as for fedsim run --data. Default: the run's data; of a deployment none, so that callers give ratings. Users of other ratings are fitted to the released items on this machine."`
	Items  string `placeholder:"DIR" help:"Of a deployment: folder with a list of items that has titles. Default: those beside the ratings, if any."`
	verb.Flags
	Reload time.Duration `default:"5s" placeholder:"TIME" help:"How often it looks for a newer model behind the name, and for newer ratings with it; 0 is never. Default 5s."`
	Listen string        `default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address and port. Default 127.0.0.1:8080, which every account of this machine reaches; port 0 takes a free one. If the variable FEDSIM_TOKEN is set, callers send its value: Authorization: Bearer TOKEN."`
}

// tokenVariable is the environment variable with the token that callers need. Other accounts of this machine cannot read it.
const tokenVariable = "FEDSIM_TOKEN"

// leaving limits the time for requests under way once the command is told to stop.
const leaving = 5 * time.Second

func (c *serveCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Reload < 0 {
		return cli.Misusef("--reload %s: it must not be below 0", c.Reload)
	}
	if c.Items != "" && !results.IsDeployed(c.Folder) {
		return cli.Misusef("--items is for the model of a deployment, and %s is a run's; a run knows its titles", c.Folder)
	}
	r, err := recommend.OpenLive(ctx, c.Folder, func(ctx context.Context, dir string) (*recommend.Recommender, error) {
		f := finishedRun{Folder: dir, Top: 1, Data: c.Data, Flags: c.Flags}
		return f.open(ctx, s, recommend.Options{Titles: c.Items})
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return cli.Misusef("--listen %s: %w", c.Listen, err)
	}
	handler := http.Handler(r)
	token := os.Getenv(tokenVariable)
	if token != "" {
		handler = recommend.WithToken(handler, token)
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		handler = recommend.Local(handler)
	} else if token == "" {
		fmt.Fprintf(s.Err, "warning: %s is reached from other machines, and there is no password: each caller learns what users like. With the variable "+tokenVariable+" callers need its value\n", l.Addr())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	fmt.Fprintf(s.Err, "serving %s at http://%s (/recommend?user=ID, or POST /recommend with ratings; /similar?item=TITLE, /health); Ctrl-C ends it\n", c.Folder, l.Addr())
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer func() { stop(); watch.Wait() }()
	if c.Reload > 0 {
		watch.Go(func() {
			r.Watch(watching, c.Reload, func(name string, err error) {
				if err != nil {
					fmt.Fprintf(s.Err, "warning: a newer model at %s cannot be opened, and the model before it answers: %v\n", c.Folder, err)
				} else {
					fmt.Fprintf(s.Err, "a newer model answers: %s\n", name)
				}
			})
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	// Requests under way are answered. The context has ended, so that they have a time limit of their own.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if err = server.Shutdown(last); errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	return err
}

type exportCmd struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, or of a deployment's model."`
	To     string `required:"" enum:"parquet,csv,safetensors,faiss,word2vec,registry" placeholder:"FORMAT" help:"parquet, csv, safetensors, faiss (an IndexFlatIP) or word2vec (its text format); registry writes an entry for a registry of deployments and a model card, in place of embeddings."`
	Out    string `placeholder:"DIR" help:"Folder to make. Default: export-FORMAT in the run's folder."`
	Users  bool   `help:"Export the matrices of users too, and the items that each party fine-tuned for itself. ε does not cover them: they follow from exact ratings."`
}

func (c *exportCmd) Run(ctx context.Context, s verb.Streams) error {
	all, err := results.ReadEmbeddings(c.Folder)
	if err != nil {
		return cli.Misusef("--run: %w", err)
	}
	if c.To == "registry" && c.Users {
		return cli.Misusef("--users is for matrices, and registry exports none")
	}
	if err = results.CheckEvidence(c.Folder); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(s.Err, "warning: %s has no %s: an older version made it, or the file was removed; nothing in it is checked\n", c.Folder, results.EvidenceFile)
	} else if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	out := cmp.Or(c.Out, filepath.Join(c.Folder, "export-"+c.To))
	if c.To == "registry" {
		contents, none := results.Registry(c.Folder)
		if none != nil {
			return none
		}
		files, none := export.Folder(out, contents)
		if none == nil {
			fmt.Fprintf(s.Out, "%s: %s; replace each TO FILL IN\n", out, strings.Join(files, ", "))
		}
		return none
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(x model.Embeddings) bool { return !c.Users && x.Exact() })
	switch {
	case len(kept) == 0:
		return cli.Misusef("--run: %s has only matrices that follow from exact ratings; say --users to export them", c.Folder)
	case len(kept) < len(all):
		fmt.Fprintln(s.Err, "matrices that follow from exact ratings, of users or of one party, are left out; --users exports them too")
	case slices.ContainsFunc(all, func(x model.Embeddings) bool { return x.Exact() }):
		fmt.Fprintln(s.Err, "warning: ε does not cover the matrices of users and of one party (user_, _party): they may give away exact ratings; keep them with their owners")
	}
	files, err := export.Write(c.To, out, kept)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s: %s\n", out, strings.Join(files, ", "))
	return nil
}
