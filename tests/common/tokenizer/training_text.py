"""The text that the small tokenizers of make_goldens.py are trained on."""
LINES = [
    "An espalier is a tree that is trained to grow flat against a wall.",
    "The gardener ties the young branches to wires and prunes the rest.",
    "It's slow work, and he'll tell you that it doesn't pay until the third "
    "year, but then the pears ripen early because the wall keeps the warmth.",
    "We've seen trees with five tiers, and they're older than the house.",
    "I'd start with a pear tree; you'd rather have an apple tree, wouldn't you?",
    "Plant it 20 cm from the wall, 3.5 metres from the next, in 2023 or 2024.",
    "def prune(tree, branches):\n    for branch in branches:\n"
    "        if branch.angle > 45:\n            tree.cut(branch)\n"
    "    return tree\n",
    "int main() {\n\tfor (int i = 0; i < 10; ++i) {\n\t\tgrow(i);\n\t}\n}\n",
    "Der Gärtner bindet die jungen Zweige an Drähte und schneidet den Rest ab.",
    "Les poires mûrissent tôt, car le mur garde la chaleur de l'été.",
    "Садовник привязывает молодые ветки к проволоке и обрезает остальное.",
    "Ο κηπουρός δένει τα νεαρά κλαδιά στα σύρματα και κόβει τα υπόλοιπα.",
    "园丁把嫩枝绑在铁丝上，剪掉其余的枝条。",
    "庭師は若い枝を針金に結び、残りを切り落とします。",
    "정원사는 어린 가지를 철사에 묶고 나머지는 잘라 냅니다.",
    "يربط البستاني الأغصان الصغيرة بالأسلاك ويقلم الباقي.",
    "הגנן קושר את הענפים הצעירים לחוטים וגוזם את השאר.",
    "माली युवा शाखाओं को तारों से बाँधता है और बाकी को काट देता है।",
    "🌳🌳 👩‍🌾 prunes, 🙂 watches, ☕️ waits — and «that» is “all” … okay?",
    "A tree of drafts, a wall of logits: tie what fits, prune what does not.",
    "The branch is tied, the branch is pruned, the branch is tied again.",
    "   Three spaces.  Two spaces. One.\n\n\nThree line breaks.\r\nAnd a CRLF.",
    "ROWS, COLUMNS and SHAPES; camelCase, snake_case, kebab-case, f(x) = x^2.",
]
