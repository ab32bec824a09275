#!/usr/bin/env python3
"""Makes the glyph atlas of the made plates from an open font (Debian package fonts-noto-cjk).

usage: make-glyphs.py [FOLDER of NotoSansCJK-*.ttc] (needs Pillow)

Writes assets/plate-glyphs.png, to look at, and data/drawing/glyphs_atlas.inc, what is compiled in.
Both hold the same coverage, 16 levels, 32x64 a glyph, in the order of GLYPHS. See assets/README.md.
"""
import os
import sys

from PIL import Image, ImageDraw, ImageFont

PROVINCES = "京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新"
GLYPHS = PROVINCES + "0123456789" + "ABCDEFGHJKLMNPQRSTUVWXYZ"
WIDTH, HEIGHT = 32, 64
FONTS = "/usr/share/fonts/opentype/noto"
SIMPLIFIED = 2  # the face of the collection with the forms used in China
LARGE = 512  # pixels an em before reduction
STROKE = 6  # letters and digits are regular, thickened at round ends: between regular and bold
# Ink widths in 32nds of the cell; the rest fill it, as on a plate (45 x 90 mm a character).
NARROW = {"1": 14, "J": 28, "L": 28, "E": 28, "F": 28}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def draw_zero():
    """A plate's nought has straight sides; the font's is an oval that readers take for another."""
    scale = 16
    ink = Image.new("L", (WIDTH * scale, HEIGHT * scale))
    ImageDraw.Draw(ink).rounded_rectangle((0, 0, ink.width - 1, ink.height - 1), ink.width * 0.45,
                                          outline=255, width=int(6.5 * scale))
    return ink


def draw(fonts, glyph):
    """The glyph's ink, stretched to the cell: plate characters are all of one height."""
    province = glyph in PROVINCES
    font, stroke = (fonts[0], 0) if province else (fonts[1], STROKE)
    left, top, right, bottom = font.getbbox(glyph, stroke_width=stroke)
    ink = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(ink).text((-left, -top), glyph, font=font, fill=255, stroke_width=stroke)
    ink = draw_zero() if glyph == "0" else ink.crop(ink.getbbox())
    if glyph == "1":  # a plate's one has no foot: the stem continues to the ground
        stem = ink.crop((0, ink.height * 3 // 4, ink.width, ink.height * 3 // 4 + 1))
        ink.paste(stem.resize((ink.width, ink.height - ink.height * 3 // 4)),
                  (0, ink.height * 3 // 4))
        ink = ink.crop(ink.getbbox())
    width = NARROW.get(glyph, WIDTH)
    ink = ink.resize((width, HEIGHT), Image.BOX)
    cell = Image.new("L", (WIDTH, HEIGHT))
    cell.paste(ink, ((WIDTH - width) // 2, 0))
    return cell.point(lambda v: (v * 15 + 127) // 255)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else FONTS
    fonts = [ImageFont.truetype(os.path.join(folder, "NotoSansCJK-%s.ttc" % weight), LARGE,
                                index=SIMPLIFIED) for weight in ("Bold", "Regular")]
    cells = [draw(fonts, glyph) for glyph in GLYPHS]
    columns = 13
    sheet = Image.new("L", (columns * WIDTH, -(-len(cells) // columns) * HEIGHT))
    for i, cell in enumerate(cells):
        place = (i % columns * WIDTH, i // columns * HEIGHT)
        sheet.paste(cell.point(lambda v: v * 17), place)
    sheet.save(os.path.join(ROOT, "assets", "plate-glyphs.png"), optimize=True)
    with open(os.path.join(ROOT, "data", "drawing", "glyphs_atlas.inc"), "w", encoding="utf-8") as out:
        out.write("/* Made by scripts/make-glyphs.py: one hexadecimal digit of coverage a texel.\n")
        out.write(" * The shapes are Noto Sans CJK's, SIL Open Font License 1.1: assets/OFL.txt. */\n")
        out.write("/* clang-format off */\n")
        for glyph, cell in zip(GLYPHS, cells):
            texels = cell.tobytes()
            out.write("/* %s */\n" % glyph)
            for y in range(HEIGHT):
                row = texels[y * WIDTH:(y + 1) * WIDTH]
                out.write('"%s"%s\n' % ("".join("%x" % v for v in row), "," if y == HEIGHT - 1 else ""))
        out.write("/* clang-format on */\n")


main()
