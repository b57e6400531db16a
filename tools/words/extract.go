package main

import (
	"bytes"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind tells where a text stands.
type kind int

const (
	comments kind = iota
	messages      // strings of the program: help, errors, summaries
	pages         // Markdown
)

func (k kind) String() string { return [...]string{"comments", "messages", "pages"}[k] }

// suffix is the file name extension by which Vale knows how to read a text.
func (k kind) suffix() string { return [...]string{".md", ".txt", ".md"}[k] }

// text holds the lines of one file that people read.
type text struct {
	kind  kind
	file  string // slash-separated, from the root of the module
	lines []line
}

type line struct {
	text string
	at   int // line in the file
}

func (t *text) written() []byte {
	var b bytes.Buffer
	for _, l := range t.lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// lineOf returns the line of the file that the n-th line of the text comes from.
func (t *text) lineOf(n int) int {
	if n < 1 || n > len(t.lines) {
		return 0
	}
	return t.lines[n-1].at
}

func (t *text) add(s string, at int) {
	for l := range strings.SplitSeq(s, "\n") {
		t.lines = append(t.lines, line{l, at})
	}
}

// extract collects the texts of the module below root, generated files and test data aside.
func extract(root string) ([]*text, error) {
	var list []*text
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".github" || d.Name() == "testdata" || d.Name() == "runs" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(rel, ".pb.go"):
			return nil
		case strings.HasSuffix(rel, ".go"):
			found, err := ofGo(name, rel)
			list = append(list, found...)
			return err
		case strings.HasSuffix(rel, ".md"):
			found, err := ofPage(name, rel)
			list = append(list, found)
			return err
		default:
			return nil
		}
	})
	return list, err
}

// ofPage reads a page of Markdown.
func ofPage(name, rel string) (*text, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t := &text{kind: pages, file: rel}
	for k, l := range strings.Split(string(b), "\n") {
		t.lines = append(t.lines, line{l, k + 1})
	}
	return t, nil
}

// ofGo reads the comments of a Go file and, unless it is a test, its messages.
func ofGo(name, rel string) ([]*text, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	list := []*text{commentsOf(files, f, rel)}
	if !strings.HasSuffix(rel, "_test.go") {
		list = append(list, messagesOf(files, f, rel))
	}
	return list, nil
}

func commentsOf(files *token.FileSet, f *ast.File, rel string) *text {
	t := &text{kind: comments, file: rel}
	for _, group := range f.Comments {
		s := group.Text() // without directives
		if strings.TrimSpace(s) == "" || strings.HasPrefix(s, "Output:") || strings.HasPrefix(s, "Unordered output:") {
			continue
		}
		at := files.Position(group.Pos()).Line
		var p comment.Parser
		t.add(string((&comment.Printer{}).Markdown(p.Parse(s))), at)
		t.add("", at)
	}
	return t
}

// messagesOf lists the strings of at least four words. Strings that are added up count as one.
func messagesOf(files *token.FileSet, f *ast.File, rel string) *text {
	t := &text{kind: messages, file: rel}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil // whose type has no strings
		case *ast.BinaryExpr, *ast.BasicLit:
			expr, ok := n.(ast.Expr)
			s, isText := joined(expr)
			if !ok || !isText {
				return true
			}
			if isMessage(s) {
				for part := range parts(s) {
					t.add(sentence(part), files.Position(n.Pos()).Line)
					t.add("", 0)
				}
			}
			return false
		default:
			return true
		}
	})
	return t
}

// parts returns the paragraphs of a message, each in one line. An indented line stands alone, and so does a call of a command.
func parts(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range breaks.Split(s, -1) {
			if p = strings.Join(strings.Fields(p), " "); p != "" && !yield(p) {
				return
			}
		}
	}
}

// breaks ends a paragraph: an empty line, or a line break before an indented line or before a call of a command.
var breaks = regexp.MustCompile(`\n\s*\n|\n[ \t]+|\n(?:fedsim|fednode) `)

// verb is a format verb, with its flags.
var verb = regexp.MustCompile(`%[-+# 0-9.*]*[a-zA-Z]`)

// sentence makes a message begin with a capital and end with a full stop: Vale would take it and the next message for
// one sentence. A format verb becomes a plain one.
func sentence(s string) string {
	s = verb.ReplaceAllString(s, "%s")
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

// joined returns the text of a string literal, or of several that are added up.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		x, first := joined(e.X)
		y, second := joined(e.Y)
		return x + y, first && second && e.Op == token.ADD
	default:
		return "", false
	}
}

var (
	word   = regexp.MustCompile(`[A-Za-z]{2,}`)
	markup = regexp.MustCompile(`</|/>|\{\{|\$\{|\\[dws]|;\s*$|[{}]\s*$`)
	call   = regexp.MustCompile(`^(fedsim|fednode)( [a-z-]+){1,2} \S*[./=-]\S*( .*)?[^.]$`)
)

// isMessage reports whether a person reads a string as a sentence: it has four words, and is no markup, style sheet, script,
// pattern or call of a command.
func isMessage(s string) bool {
	return strings.Count(strings.TrimSpace(s), " ") >= 3 && len(word.FindAllString(s, 4)) == 4 && !markup.MatchString(s) && !call.MatchString(s)
}
