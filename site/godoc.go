// Godoc prints the documentation of a Go package as Markdown.
//
// usage: go run godoc.go folder import-path
package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	files := token.NewFileSet()
	var parsed []*ast.File
	paths, err := filepath.Glob(filepath.Join(os.Args[1], "*.go"))
	check(err)
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		check(err)
		parsed = append(parsed, file)
	}
	pkg, err := doc.NewFromFiles(files, parsed, os.Args[2])
	check(err)
	p := &printer{pkg, files, pkg.Printer()}
	p.text.HeadingLevel = 3
	p.text.HeadingID = func(*comment.Heading) string { return "" }
	p.text.DocLinkURL = p.url

	fmt.Printf("# Go: %s\n\n```go\nimport %q\n```\n\n", pkg.Name, pkg.ImportPath)
	p.comment(pkg.Doc)
	p.examples(pkg.Examples)
	p.values("##", pkg.Consts)
	p.values("##", pkg.Vars)
	p.funcs("##", pkg.Funcs)
	for _, t := range pkg.Types {
		p.entry("##", t.Name, t.Decl, t.Doc, t.Examples)
		p.values("###", t.Consts)
		p.values("###", t.Vars)
		p.funcs("###", t.Funcs)
		p.funcs("###", t.Methods)
	}
}

type printer struct {
	pkg   *doc.Package
	files *token.FileSet
	text  *comment.Printer
}

func (p *printer) comment(text string) {
	os.Stdout.Write(p.text.Markdown(p.pkg.Parser().Parse(text)))
	fmt.Println()
}

func (p *printer) url(link *comment.DocLink) string {
	name := link.Name
	if link.Recv != "" {
		name = link.Recv + "." + name
	}
	if link.ImportPath == "" {
		return "#" + anchor(name)
	}
	return "https://pkg.go.dev/" + link.ImportPath + "#" + name
}

// As mdBook names a heading.
func anchor(name string) string { return strings.ToLower(strings.ReplaceAll(name, ".", "")) }

func (p *printer) entry(level, name string, decl ast.Node, text string, examples []*doc.Example) {
	fmt.Printf("%s %s\n\n", level, name)
	p.code(p.format(decl))
	p.comment(text)
	p.examples(examples)
}

func (p *printer) values(level string, values []*doc.Value) {
	for _, value := range values {
		name := value.Names[0]
		if len(value.Names) > 1 {
			for _, each := range value.Names {
				fmt.Printf("<span id=%q></span>\n\n", anchor(each))
			}
			name = "Values from " + name
		}
		p.entry(level, name, value.Decl, value.Doc, nil)
	}
}

func (p *printer) funcs(level string, funcs []*doc.Func) {
	for _, f := range funcs {
		name := strings.TrimPrefix(f.Recv, "*")
		p.entry(level, strings.TrimPrefix(name+"."+f.Name, "."), f.Decl, f.Doc, f.Examples)
	}
}

func (p *printer) examples(examples []*doc.Example) {
	for _, example := range examples {
		fmt.Println("Example:")
		fmt.Println()
		// Without the braces of the function, and what they indent.
		body := strings.TrimSpace(strings.Trim(p.format(example.Code), "{}"))
		p.code(strings.ReplaceAll(body, "\n\t", "\n"))
	}
}

func (p *printer) code(text string) { fmt.Printf("```go\n%s\n```\n\n", text) }

func (p *printer) format(node ast.Node) string {
	var text strings.Builder
	check(format.Node(&text, p.files, node))
	return text.String()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
