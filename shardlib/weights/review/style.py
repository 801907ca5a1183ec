"""The page's style sheet: legible at night and in print, in the reader's own fonts."""

from __future__ import annotations

STYLE = """
:root{--ink:#1d2229;--soft:#5c6672;--line:#d9dee4;--paper:#fff;--back:#f4f6f8;--new:#1463b5;--band:#1463b522;--old:#8a6d1d;
--bad:#b3261e;--warn:#b25e09;--good:#1d7a46}
@media (prefers-color-scheme:dark){:root{--ink:#dfe4ea;--soft:#97a3b0;--line:#333b45;--paper:#1b2027;--back:#12161b;
--new:#6bb1f7;--band:#6bb1f726;--old:#d8b75a;--bad:#ff8a80;--warn:#ffb35c;--good:#6fd39a}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1020px;margin:0 auto;padding:24px 20px 60px}
header{background:var(--paper);border-left:6px solid var(--warn);padding:16px 22px;border-radius:6px}
header.calm{border-color:var(--good)}header.grave{border-color:var(--bad)}
h1{font-size:1.45rem;line-height:1.3;margin:0 0 6px}h2{font-size:1.1rem;margin:0 0 4px}p{margin:4px 0}
section{margin-top:30px}.note{color:var(--soft);font-size:.86rem}
.tiles{list-style:none;display:flex;flex-wrap:wrap;gap:8px;padding:0;margin:12px 0 0}
.tiles li{background:var(--paper);border-radius:6px;padding:6px 13px;font-size:.9rem}
.tiles b{font-size:1.15rem;margin-right:3px}.tiles .zero{color:var(--soft);opacity:.75}.tiles .bad b{color:var(--bad)}
article{display:flex;gap:18px;background:var(--paper);border-radius:6px;border-left:4px solid var(--line);
padding:12px 16px;margin-top:10px;break-inside:avoid}
article.bad{border-color:var(--bad)}article>div{min-width:0;flex:1}
.history{flex:none;width:380px;height:104px}
.id,.ids td:last-child,code{font-family:ui-monospace,monospace;font-size:.88rem;overflow-wrap:anywhere}.id{font-weight:600}
.badge{background:var(--line);border-radius:9px;padding:1px 9px;margin-right:6px;font-size:.8rem}
.badge.bad{background:var(--bad);color:var(--paper)}.change{white-space:nowrap}
table{border-collapse:collapse;margin:8px 0;font-size:.9rem}
th,td{text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--line);vertical-align:top}th{color:var(--soft)}
summary{cursor:pointer;color:var(--new)}
svg{max-width:100%}text{font:11px system-ui,sans-serif;fill:var(--soft)}
.band{fill:var(--band)}.newline{stroke:var(--new);stroke-width:2}.newtext{fill:var(--new);color:var(--new);font-weight:600}
.oldline{stroke:var(--old);stroke-width:1.5;stroke-dasharray:5 4}.oldtext{fill:var(--old);color:var(--old)}
.shift{stroke:var(--soft);stroke-dasharray:2 3;color:var(--soft)}
circle.used{fill:var(--ink)}circle.unused{fill:var(--paper);stroke:var(--soft)}circle.failed{fill:var(--warn)}
polygon.timeout{fill:var(--bad)}.key.timeout{color:var(--bad)}.key.failed{color:var(--warn)}
rect.old{fill:var(--old)}rect.new{fill:var(--new)}
footer{margin-top:34px;border-top:1px solid var(--line);padding-top:12px}
@media (max-width:760px){article{flex-direction:column}}
"""
