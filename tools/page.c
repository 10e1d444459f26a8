/* page.c - see page.h. */
#include "page.h"

#include "plan/chart.h"
#include "plan/svg.h"

static const char style[] =
	":root{color-scheme:light dark;--page:#f1f5f9;--edge:#e2e8f0}\n"
	"@media (prefers-color-scheme:dark){:root{--page:#0b1120;--edge:#1e293b}}\n"
	"*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 Inter,"
	"'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif}\n"
	"header,main,footer{max-width:1320px;margin:auto;padding:0 "
	"20px}header{padding-top:28px}footer{padding-bottom:28px;"
	"color:var(--soft);font-size:13px}\n"
	"h1{font-size:28px;line-height:1.2;margin:0;overflow-wrap:anywhere}h2{font-size:17px;margin:0 0 6px}"
	"header p,.card p{margin:4px 0 10px;color:var(--soft);overflow-wrap:anywhere}\n"
	".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:18px 0}\n"
	".tile{background:var(--panel);border:1px solid var(--edge);border-radius:12px;padding:12px 16px}\n"
	".tile span{display:block;font-size:13px;color:var(--soft)}.tile b{font-size:21px;font-weight:650}\n"
	".cards{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px;margin:16px 0 "
	"28px;grid-auto-flow:dense}"
	".wide{grid-column:1/-1}\n"
	".card{background:var(--panel);border:1px solid var(--edge);border-radius:12px;padding:16px 18px;min-width:0}\n"
	"svg.chart{display:block;width:calc(100% + 20px);margin:-8px -10px -4px;height:auto;touch-action:pan-y}\n"
	".memory{margin:8px 0 3px!important;font-size:14px}.memory b{color:var(--ink)}.memory+.bar{height:18px;"
	"background:var(--edge)}\n"
	".dot{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px}"
	".nothing{color:var(--soft)}\n"
	".bar{display:flex;height:30px;border-radius:8px;overflow:hidden;gap:1px}.bar i{flex-basis:0;min-width:1px}\n"
	".legend{list-style:none;margin:12px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:6px 22px;font-size:14px}"
	".legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px}"
	".legend small{color:var(--soft)}\n"
	".b0{background:var(--c0)}.b1{background:var(--c1)}.b2{background:var(--c2)}.b3{background:var(--c3)}"
	".b4{background:var(--c4)}.b5{background:var(--c5)}.b6{background:var(--c6)}.b7{background:var(--c7)}\n"
	".scroll{overflow-x:auto;-webkit-overflow-scrolling:touch}table{border-collapse:collapse;width:100%;"
	"font-size:14px}th{text-align:left;color:var(--soft);font-weight:500}"
	"td,th{padding:5px 10px 5px 0;border-bottom:1px solid var(--edge);overflow-wrap:anywhere}"
	"td+td,th+th{white-space:nowrap}td:not(:first-child):last-child,th:last-child:not(:first-child){text-align:"
	"right}"
	"tr:last-child td{border-bottom:0}.num td+td,.num th+th{text-align:right}\n"
	".detail{font-variant-numeric:tabular-nums;min-height:1.5em;margin:8px 0 0!important}\n"
	"svg.arena-map{display:block;width:100%;min-width:900px;height:auto}\n"
	"svg.arena-map .paper{fill:var(--panel)}svg.arena-map .plot{fill:var(--page)}svg.arena-map .grid{"
	"stroke:var(--grid)}svg.arena-map .title{fill:var(--ink)}svg.arena-map .subtitle,svg.arena-map .axis,"
	"svg.arena-map .tick,svg.arena-map .legend{fill:var(--soft)}svg.arena-map .live{stroke:var(--ink)}"
	"svg.arena-map .halo{stroke:var(--panel)}svg.arena-map .b{stroke:var(--panel)}svg.arena-map .b:hover{"
	"stroke:var(--ink)}svg.arena-map .arena,svg.arena-map .peak-line{stroke:var(--ink)}"
	"svg.arena-map .budget-text{fill:var(--limit)}svg.arena-map .budget{stroke:var(--limit)}\n"
	"details{margin:0}summary{cursor:pointer;font-weight:600}\n"
	"#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--panel);font-size:13px;line-height:1."
	"4;"
	"padding:6px 10px;border-radius:8px;white-space:pre;display:none;z-index:9}\n"
	"@media (max-width:820px){.cards{grid-template-columns:minmax(0,1fr)}header,main,footer{padding-left:12px;"
	"padding-right:12px}.card{padding:12px}.tiles{grid-template-columns:repeat(2,minmax(0,1fr));gap:8px}"
	".tile b{font-size:18px}.tile{padding:10px 12px}h1{font-size:23px}}\n"
	"@media print{body{background:#fff}.card{break-inside:avoid}}\n";

/* Places of a chart's paths are pixels; data-plot, data-x and data-y say what values they are. */
static const char script[] =
	"'use strict';\n"
	"const tip=document.createElement('div');tip.id='tip';document.body.append(tip);\n"
	"const words=value=>Math.abs(value)>=1e5||(value&&Math.abs(value)<1e-3)?value.toExponential(3):"
	"String(+value.toPrecision(5));\n"
	"function show(event,text){tip.textContent=text;tip.style.display='block';\n"
	"  tip.style.left=Math.max(4,Math.min(event.clientX+14,innerWidth-tip.offsetWidth-6))+'px';\n"
	"  tip.style.top=Math.max(4,event.clientY-tip.offsetHeight-12)+'px';}\n"
	"const hide=()=>{tip.style.display='none';};\n"
	"for(const svg of document.querySelectorAll('svg.chart')){\n"
	"  const numbers=name=>svg.dataset[name].split(' ').map(Number);\n"
	"  const [left,top,width,height]=numbers('plot'),[xLow,xHigh,xScale]=numbers('x'),\n"
	"    [yLow,yHigh,yScale,logarithmic]=numbers('y'),units=svg.dataset.unit.split('|');\n"
	"  const lines=[...svg.querySelectorAll('path[data-name]')].map(path=>{let y=0;const points=[];\n"
	"    for(const part of path.getAttribute('d').matchAll(/([MLH])([-\\d.]+)(?: ([-\\d.]+))?/g)){\n"
	"      if(part[1]!=='H'){y=+part[3];points.push([+part[2],y]);}}\n"
	"    return {name:path.dataset.name,points,holds:path.getAttribute('d').includes('H')};});\n"
	"  svg.addEventListener('pointermove',event=>{\n"
	"    const box=svg.getBoundingClientRect(),at=(event.clientX-box.left)*svg.viewBox.baseVal.width/box.width;\n"
	"    if(at<left-4||at>left+width+4)return hide();\n"
	"    const rows=lines.filter(line=>line.points.length).map(line=>{\n"
	"      const near=line.holds?line.points.filter(p=>p[0]<=at).pop()||line.points[0]:\n"
	"        line.points.reduce((a,b)=>Math.abs(b[0]-at)<Math.abs(a[0]-at)?b:a);\n"
	"      const share=1-(near[1]-top)/height;\n"
	"      const y=logarithmic?yLow*Math.pow(yHigh/yLow,share):yLow+(yHigh-yLow)*share;\n"
	"      const x=xLow+(xHigh-xLow)*(near[0]-left)/width;\n"
	"      return (line.name?line.name+'  ':'')+words(y/yScale)+' '+units[1].trim()+'  at '+words(x/xScale)+' "
	"'+units[0];});\n"
	"    if(rows.length)show(event,rows.join('\\n'));});\n"
	"  svg.addEventListener('pointerleave',hide);}\n"
	"for(const svg of document.querySelectorAll('svg.arena-map')){\n"
	"  const detail=svg.closest('.card').querySelector('.detail');\n"
	"  for(const kind of ['pointerover','click'])svg.addEventListener(kind,event=>{\n"
	"    const name=event.target.querySelector&&event.target.querySelector(':scope>title');\n"
	"    if(name&&detail)detail.textContent=name.textContent;});}\n";

void page_open(FILE *out, const char *title, const char *subtitle)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
	      out);
	svg_escape(out, title, SIZE_MAX);
	fprintf(out, "</title>\n<style>\n%s%s</style></head>\n<body>\n<header><h1>", chart_style, style);
	svg_escape(out, title, SIZE_MAX);
	fputs("</h1><p>", out);
	svg_escape(out, subtitle, SIZE_MAX);
	fputs("</p></header>\n<main>\n", out);
}

void page_close(FILE *out)
{
	fprintf(out, "</main>\n<footer>tarn " TARN_VERSION "</footer>\n<script>\n%s</script>\n</body></html>\n",
		script);
}

void page_tiles_open(FILE *out)
{
	fputs("<div class=\"tiles\">\n", out);
}

void page_tile(FILE *out, const char *label, const char *value, const char *note)
{
	fputs("<div class=\"tile\"><span>", out);
	svg_escape(out, label, SIZE_MAX);
	fputs("</span><b>", out);
	svg_escape(out, value, SIZE_MAX);
	fputs("</b><span>", out);
	svg_escape(out, note, SIZE_MAX);
	fputs("</span></div>\n", out);
}

void page_tiles_close(FILE *out)
{
	fputs("</div>\n", out);
}
