package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// code has the type-checked packages of the library without tests, for the current platform.
type code struct {
	root  string
	fset  *token.FileSet
	info  *types.Info
	funcs map[string]*function // by name, in the form of Step.Function
	paths []string
	// values maps a struct field to the functions that the code assigns to that field.
	values map[*types.Var][]*types.Func
}

type function struct {
	obj         *types.Func
	file        string // relative to the repository's root
	first, last int
	// uses has the objects (functions, fields, types) that the function's body mentions, including closures.
	uses map[types.Object]bool
	// locks are the mutexes that the function locks itself, as pkg.Type.field, sorted.
	locks []string
}

var walked = []string{"./informer", "./snapshot", "./metrics"}

// readCode type-checks the walked packages and their dependencies in the module. It reads other packages from the build
// cache.
func readCode(root string) (*code, error) {
	c := &code{
		root: root, fset: token.NewFileSet(), funcs: map[string]*function{}, values: map[*types.Var][]*types.Func{},
		info: &types.Info{
			Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}
	const format = "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \",\"}}"
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", format}, walked...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // shares the linter's build cache
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	exports, ours := map[string]string{}, map[string]*types.Package{}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	compiled := importer.ForCompiler(c.fset, "gc", open)
	imports := importerFunc(func(path string) (*types.Package, error) {
		if p := ours[path]; p != nil {
			return p, nil
		}
		return compiled.Import(path)
	})
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); { // go list prints dependencies first
		cells := strings.Split(lines.Text(), "\t")
		exports[cells[0]] = cells[1]
		if !strings.HasPrefix(cells[0], modulePath+"/") {
			continue
		}
		if ours[cells[0]], err = c.check(cells[0], cells[2], strings.Split(cells[3], ","), imports); err != nil {
			return nil, err
		}
	}
	return c, nil
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

func (c *code) check(path, dir string, names []string, imports types.Importer) (*types.Package, error) {
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(c.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	c.paths = append(c.paths, path)
	p, err := (&types.Config{Importer: imports}).Check(path, c.fset, files, c.info)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
				c.add(p, d)
			}
		}
		ast.Inspect(f, c.noteValue)
	}
	return p, nil
}

func (c *code) add(p *types.Package, d *ast.FuncDecl) {
	file, _ := filepath.Rel(c.root, c.fset.Position(d.Pos()).Filename)
	f := &function{
		obj: c.info.Defs[d.Name].(*types.Func), file: filepath.ToSlash(file),
		uses: map[types.Object]bool{},
	}
	f.first, f.last = c.fset.Position(d.Pos()).Line, c.fset.Position(d.End()).Line
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Ident:
			if obj := origin(c.info.Uses[x]); obj != nil {
				f.uses[obj] = true
			}
		case *ast.CallExpr:
			if lock := c.locked(x); lock != "" && !slices.Contains(f.locks, lock) {
				f.locks = append(f.locks, lock)
			}
		}
		return true
	})
	slices.Sort(f.locks)
	name := p.Name() + "." + d.Name.Name
	if receiver := receiverName(d); receiver != "" {
		name = p.Name() + "." + receiver + "." + d.Name.Name
	}
	c.funcs[name] = f
}

// origin returns the generic function or field that obj instantiates, or obj itself.
func origin(obj types.Object) types.Object {
	switch o := obj.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return obj
}

// locked returns the struct field whose mutex a call locks, or "" if the call locks none.
func (c *code) locked(call *ast.CallExpr) string {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Lock", "RLock", "LockContext"}, method.Sel.Name) {
		return ""
	}
	field, ok := method.X.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	s := c.info.Selections[field]
	if s == nil || s.Kind() != types.FieldVal {
		return ""
	}
	return c.fieldName(s)
}

// fieldName returns pkg.Type.field for a selected struct field. Type is the type that declares the field, not one that
// embeds it.
func (c *code) fieldName(s *types.Selection) string {
	t := s.Recv()
	for _, at := range s.Index()[:len(s.Index())-1] {
		t = deref(t).Underlying().(*types.Struct).Field(at).Type()
	}
	named, ok := deref(t).(*types.Named)
	if !ok {
		return s.Obj().Name()
	}
	return named.Obj().Pkg().Name() + "." + named.Obj().Name() + "." + s.Obj().Name()
}

func deref(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	return types.Unalias(t)
}

// noteValue notes which functions a composite literal or an assignment stores in a struct field.
func (c *code) noteValue(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := x.Key.(*ast.Ident); ok {
			c.noteField(key, x.Value)
		}
	case *ast.AssignStmt:
		for i, left := range x.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && len(x.Lhs) == len(x.Rhs) {
				c.noteField(s.Sel, x.Rhs[i])
			}
		}
	}
	return true
}

func (c *code) noteField(field *ast.Ident, value ast.Expr) {
	v, ok := c.info.Uses[field].(*types.Var)
	if !ok || !v.IsField() {
		return
	}
	ast.Inspect(value, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if f, ok := c.info.Uses[id].(*types.Func); ok {
				c.values[v] = append(c.values[v], f)
			}
		}
		return true
	})
}

// at returns the name of the function at a line of a file, or "". The file is relative to the repository's root.
func (c *code) at(file string, line int) string {
	for name, f := range c.funcs {
		if f.file == file && f.first <= line && line <= f.last {
			return name
		}
	}
	return ""
}

// reaches reports whether f mentions to, or an interface method that to implements.
func (f *function) reaches(to *function) bool {
	if f.uses[to.obj] {
		return true
	}
	if to.obj.Signature().Recv() == nil {
		return false
	}
	for used := range f.uses {
		m, ok := used.(*types.Func)
		if !ok || m.Name() != to.obj.Name() || m.Signature().Recv() == nil {
			continue
		}
		if i, ok := m.Signature().Recv().Type().Underlying().(*types.Interface); ok && implementedBy(i, to.obj) {
			return true
		}
	}
	return false
}

// implementedBy reports whether a type in the method's package implements i with this method, declared or promoted.
func implementedBy(i *types.Interface, method *types.Func) bool {
	scope := method.Pkg().Scope()
	for _, name := range scope.Names() {
		t, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || types.IsInterface(t.Type()) {
			continue
		}
		pointer := types.NewPointer(t.Type())
		found, _, _ := types.LookupFieldOrMethod(pointer, true, method.Pkg(), method.Name())
		if found == method && types.Implements(pointer, i) {
			return true
		}
	}
	return false
}

// touches reports whether f, or a function that f calls, mentions the struct field.
func (c *code) touches(f *function, field string) bool {
	mentions := func(g *function) bool {
		for used := range g.uses {
			if v, ok := used.(*types.Var); ok && v.IsField() && c.isField(v, field) {
				return true
			}
		}
		return false
	}
	if mentions(f) {
		return true
	}
	for _, g := range c.funcs {
		if f.uses[g.obj] && mentions(g) {
			return true
		}
	}
	return false
}

// handsOver reports whether control passes from one function to another by a struct field: both functions mention the
// field, or the code stores the second function in the field.
func (c *code) handsOver(from, to *function, field string) bool {
	if !c.touches(from, field) {
		return false
	}
	for v, funcs := range c.values {
		if c.isField(v, field) && slices.Contains(funcs, to.obj) {
			return true
		}
	}
	return c.touches(to, field)
}

func (c *code) isField(v *types.Var, field string) bool {
	parts := strings.Split(field, ".")
	if len(parts) != 3 || v.Name() != parts[2] || v.Pkg() == nil || v.Pkg().Name() != parts[0] {
		return false
	}
	t, ok := v.Pkg().Scope().Lookup(parts[1]).(*types.TypeName)
	if !ok {
		return false
	}
	s, ok := t.Type().Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if f.Origin() == v.Origin() {
			return true
		}
	}
	return false
}

func (c *code) faults(w *Walk) []string {
	var all []string
	for _, s := range w.Steps {
		if fault := c.fault(s); fault != "" {
			all = append(all, fmt.Sprintf("%s:%d: %s: %s", architecture, s.Line, s.Function, fault))
		}
	}
	is := w.Stated
	is.Functions, is.Files, is.Locks = len(w.functions()), len(w.files()), len(w.locks())
	if is != w.Stated {
		const differs = "%s: %s: the list has %d functions in %d files, and %d locks; the page says %d, %d and %d"
		all = append(all, fmt.Sprintf(differs,
			architecture, w.Name, is.Functions, is.Files, is.Locks, w.Stated.Functions, w.Stated.Files, w.Stated.Locks))
	}
	return all
}

func (c *code) fault(s Step) string {
	f := c.funcs[s.Function]
	if f == nil {
		return "there is no such function any more; say what the way passes instead"
	}
	if f.file != s.File {
		return fmt.Sprintf("it is in %s, not in %s", f.file, s.File)
	}
	if locks := slices.Sorted(slices.Values(s.Locks)); !slices.Equal(locks, f.locks) {
		return fmt.Sprintf("it takes %q itself, not %q", f.locks, locks)
	}
	if s.From == "" {
		return ""
	}
	from := c.funcs[s.From]
	switch {
	case from == nil: // fault reports a missing function for its own row
	case s.Returns && !f.reaches(from):
		return fmt.Sprintf("it does not call %s any more", s.From)
	case s.Via != "" && !c.handsOver(from, f, s.Via):
		return fmt.Sprintf("%s does not reach it through %s any more", s.From, s.Via)
	case s.Via == "" && !s.Returns && !from.reaches(f):
		return fmt.Sprintf("%s does not call it any more; say what does", s.From)
	}
	return ""
}
